"""Train a small network on GPU 0 in an elastic loop of accelerate, with dropout.

Arguments: the backend of its process group, and a file, which the last rank leaves where it ends
itself once; without it, none does.
"""

import sys

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from mortal import end_once
from torch.utils.data import DataLoader, TensorDataset

import workbench

backend, *files = sys.argv[1:]
accelerator = Accelerator(
    gradient_accumulation_steps=2, kwargs_handlers=[InitProcessGroupKwargs(backend=backend)]
)
torch.manual_seed(20_260)
images = torch.rand(512, 64)
labels = images.reshape(-1, 8, 8).sum(dim=2).argmax(dim=1)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 200), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(200, 8)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(images, labels), 16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
state = {"model": model, "optimizer": optimizer, "losses": []}
for step in workbench.elastic(state, data=loader, epochs=8):
    with accelerator.accumulate(model):
        inputs, wanted = step.batch
        loss = torch.nn.functional.cross_entropy(model(inputs), wanted) * step.weight
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    state["losses"].append(accelerator.reduce(loss.detach(), "mean").item())
    if accelerator.process_index == accelerator.num_processes - 1 and step >= 20:
        end_once(files)
assert accelerator.device.type == "cuda", accelerator.device
if accelerator.is_main_process:
    loss = sum(state["losses"]) / len(state["losses"])
    parts = f"{len(state['losses'])} parts on {accelerator.num_processes} ranks"
    print(f"CHECKED loss {loss:.6f} in {parts}, each on {accelerator.device}")
