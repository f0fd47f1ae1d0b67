// Package plan holds the JSON types of a node plan: the document that tells the agent on one machine which files to write,
// which instructions to run once or again and again, and which probes to make. It also holds the JSON types in which the
// agent reports back.
//
// These are wire types (docs/wire/plan.md#plan). Agents of several generations, other tools and clusters created by
// other versions read and write them, so keys, order of fields and omission of empty values are fixed: the checksum of
// a plan is taken over its exact bytes, and another order of fields would make every node apply its plan again.
//
// How a plan travels in its Secret, and what the values there mean, is in package pkg/decide/nodeplan of the main module.
package plan
