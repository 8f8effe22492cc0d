"""Pure accounts: of a trace (latency, throughput, goodput, money) and of sizes (the others)."""
