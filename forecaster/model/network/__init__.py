"""The network: features, the GRU and its C++ loop, encoder and decoder, losses."""
