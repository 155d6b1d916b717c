"""Train a linear model by JAX on one mesh of all ranks' devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import workbench

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("ranks",))
divided = NamedSharding(mesh, PartitionSpec("ranks"))
draw = np.random.default_rng(3)
x = draw.normal(size=(64, 4)).astype("float32")
y = x.sum(1, keepdims=True)
mine = slice(jax.process_index(), None, jax.process_count())
inputs = jax.make_array_from_process_local_data(divided, x[mine])
wanted = jax.make_array_from_process_local_data(divided, y[mine])
weights = jax.device_put(jnp.zeros((4, 1)), NamedSharding(mesh, PartitionSpec()))


@jax.jit
def step(weights, inputs, wanted):
    def mean_loss(weights):
        return jnp.mean((inputs @ weights - wanted) ** 2)

    loss, gradient = jax.value_and_grad(mean_loss)(weights)
    return weights - 0.1 * gradient, loss


losses = []
for _ in range(20):
    weights, loss = step(weights, inputs, wanted)
    losses.append(float(loss))
    workbench.report(loss=losses[-1], total=20)
print("losses", losses)
print("ranks", jax.process_count(), "rank", jax.process_index(), "steps", len(losses))
