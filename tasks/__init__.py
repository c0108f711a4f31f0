"""The steps as Prefect sees them: a name, a policy and one call each."""
