"""A rehearsal of EC2 on this machine: made-up prices, interruptions and slow links."""
