// Package plan contains the JSON types of a node plan: the document with the files that the agent on one machine
// writes, the instructions that it runs once or periodically, and the probes. It also contains the JSON types of the
// agent's reports.
//
// These are wire types (docs/wire/plan.md#plan). Agents of several generations, other tools and clusters created by
// other versions read and write them, so keys, order of fields and omission of empty values are fixed: the checksum of
// a plan is taken over its exact bytes, and another order of fields would make every node apply its plan again.
//
// Package pkg/decide/nodeplan of the main module describes the plan Secret and its values.
package plan
