// Package releases knows which configuration keys, charts and features the releases of RKE2 and K3s have.
//
// A small table is part of the program. An administrator extends it with --release-data FILE|URL, a YAML or JSON file
// of the same form:
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
// Drover never waits for these data. A version whose minor is missing in the table gets the union of all minors and is
// marked as not known, which causes a warning. A key that is missing in the table is passed on with a warning, too.
//
// The package does no I/O of its own. [Load] takes a function that opens the source, such as that of [FromFileOrURL].
package releases
