// The JSON of the endpoints for operations. The Go types are in pkg/ui and pkg/operate.

/** An etcd snapshot of a cluster. */
export interface Snapshot {
  /** The name that a restore uses. */
  name: string;
  file?: string;
  created?: string;
  /** Where the snapshot is, in words. */
  place: string;
  /** The Kubernetes version of the cluster at that time. */
  version?: string;
  size?: number;
  state: string;
  message?: string;
  /** True if the snapshot holds the configuration of the cluster. */
  hasConfig: boolean;
}

/** What a restore does, as "drover snapshot restore" says before it asks. */
export interface Briefing {
  lines: { label: string; text: string }[];
  restored?: { field: string; old: string; new: string }[] | null;
  /** Why this restore is impossible. */
  refused?: string;
  /** A generation that no earlier request had. */
  generation?: number;
}

/** A kind of operation, and what a request for it would be. */
export interface OperationState {
  /** The field of spec.rkeConfig. */
  field: string;
  /** A generation that no earlier request had. */
  generation?: number;
  /** Why no request makes sense now. */
  refused?: string;
  notes?: string[];
}

/** What the deletion of a cluster does. */
export interface Removal {
  cluster: string;
  machines?: { name: string; pool?: string; roles?: string; host: string }[] | null;
  goes?: string[] | null;
  stays?: string[] | null;
  /** What holds the deletion until a user or another program acts. */
  blocks?: string[] | null;
  /** Why the cluster cannot be deleted. */
  refused?: string;
  deleting?: boolean;
  /** What could not be read. */
  notes?: string[] | null;
  /** The version of the cluster that this answer is about. */
  seen: string;
}
