// Package reach measures what it costs to reach clusters through their agents: requests through Drover's proxy, tunnel and agent against the same requests
// to the API server itself, in one run; watches that wait; a thousand agents at one server, and their return when it was restarted. `make bench` runs it. It
// asserts none of the figures: they depend on what else the machine does.
package reach
