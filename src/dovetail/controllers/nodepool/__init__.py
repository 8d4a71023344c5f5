"""Status of NodePools: `readiness`, `registrationhealth`, `counter`, `hash`."""
