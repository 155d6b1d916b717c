"""The rehearsal's EC2: moto's server with its missing features."""
