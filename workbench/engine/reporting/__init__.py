"""What a rank sends to the supervisor: batches, pulses, output; and how it survives a gap."""
