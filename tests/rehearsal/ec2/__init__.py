"""EC2 to rehearse on: moto's server, with what it lacks."""
