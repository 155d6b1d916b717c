"""JAX on a rank."""
