// Package releases knows which configuration keys, charts and features the releases of RKE2 and K3s have.
//
// A small table is part of the program. An administrator extends it with --release-data FILE|URL, a YAML or JSON file of the
// same form:
//
//	distributions:
//	  rke2:
//	    minors: ["1.37"]                  # added to the minors known already
//	    serverArgs:                       # keys only servers understand; agentArgs are those of every node
//	      new-key: string                 # string, boolean, integer or array
//	      odd-key: {type: array, since: "1.36", until: "1.37"}
//	    charts: [new-chart]
//	    features: {encryption-key-rotation: "2.0.0"}
//
// Nothing ever waits for these data. A version whose minor is not in the table is described by the union of its neighbours
// and marked as not known, which the renderer turns into a warning; a key that is not in the table passes through with a
// warning as well.
//
// The package does no I/O of its own but what [FromFileOrURL] is asked for: [Load] takes a function that opens the source.
package releases
