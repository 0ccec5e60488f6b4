// Package graphs compares what rows of architectures compute with llama.cpp, by small models with random weights in 32-bit floats.
package graphs
