// Package reach measures the cost of reaching clusters through their agents, in one run. It compares requests through
// Drover's proxy, tunnel and agent with the same requests to the API server. It measures idle watches, a thousand
// agents at one server, and their return after its restart. `make bench` runs it. It asserts none of the figures,
// because they depend on the load of the machine.
package reach
