"""Status of NodePools: `validation`, `readiness`, `registrationhealth`, `counter`, `hash`."""
