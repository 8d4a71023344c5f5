"""vCPU quotas: `quotas` says what a launch takes of them and of subnets, `shared` what all launches share."""
