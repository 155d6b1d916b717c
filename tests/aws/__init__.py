"""Try workbench on a real AWS account, and try the trial itself on the rehearsal."""
