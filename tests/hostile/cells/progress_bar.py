from tqdm import tqdm

for _ in tqdm(range(100)):
    pass
