"""The process around the agents: their supervision, reload, log and memory."""
