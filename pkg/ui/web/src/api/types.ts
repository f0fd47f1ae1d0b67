// The JSON of Drover's server. The Go types are in pkg/operate/status, pkg/operate/diagnose and pkg/operate/inspect.

export type State =
  | 'Waiting'
  | 'Ready'
  | 'Paused'
  | 'Failed'
  | 'Deleting'
  | 'Creating'
  | 'Joining'
  | 'Running'
  | 'Unhealthy';

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  since?: string;
}

export interface Stage {
  name: string;
  begin: string;
  end?: string;
}

export interface Pool {
  name: string;
  roles: string[] | null;
  /** The requested number of machines. Of a scaled pool, it is the lowest. */
  wanted: number;
  /** True if an autoscaler or the user sizes the pool. */
  scaled?: boolean;
  paused?: boolean;
}

/** The part that rows of clusters and machines share. */
export interface Row {
  namespace: string;
  name: string;
  state: State;
  reason?: string;
  message?: string;
  since?: string;
  version?: string;
  conditions?: Condition[];
  stages?: Stage[];
  created: string;
}

export interface Cluster extends Row {
  id?: string;
  distribution?: string;
  imported?: boolean;
  pools?: Pool[];
}

export interface Machine extends Row {
  cluster: string;
  pool?: string;
  roles?: string[];
  node?: string;
  os?: string;
  runtime?: string;
  providerID?: string;
  addresses?: string[];
  infrastructure?: string;
  infrastructureName?: string;
}

export interface Session {
  user: string;
  groups: string[] | null;
  csrf: string;
  version: string;
  mode: 'server' | 'local';
  expires: string | null;
}

export interface Namespaces {
  /** False if the user may not list namespaces. */
  all: boolean;
  namespaces: string[];
}

export interface Access {
  clusters: 'view' | 'edit' | 'none';
}

/** The Kubernetes minors that the server knows, the oldest first, and the networks of RKE2. */
export interface Releases {
  k3s: string[] | null;
  rke2: string[] | null;
  networks?: string[] | null;
}

/** The part of an OpenAPI schema that pages understand. */
export interface Schema {
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  enum?: unknown[];
  default?: unknown;
  required?: string[];
  format?: string;
}

export type LinkState = 'OK' | 'Unknown' | 'Behind' | 'Waiting' | 'Broken';

export interface Link {
  name: string;
  object: string;
  state: LinkState;
  what?: string;
  since?: string;
  reason?: string;
  why?: string;
  waitsFor?: string;
  wokenBy?: string[];
  do?: string[];
  says?: string;
}

export interface Branch {
  title: string;
  links?: Link[];
  branches?: Branch[];
}

export interface Finding extends Link {
  chain: string[];
}

export interface Report {
  cluster: string;
  result: LinkState;
  at: string;
  findings?: Finding[];
  notes?: string[];
  tree: Branch;
}

export interface Explanation {
  cluster: string;
  managedBy?: string;
  settingsUnknown?: string;
  decision?: Decision;
}

export interface Decision {
  step: string;
  wait?: { reason: string; message: string; wakes: string[] | null; after?: string; needsPerson?: boolean };
  passed?: { step: string; why: string }[];
  effects?: string[];
  machines?: ExplainedMachine[];
}

export interface ExplainedMachine {
  name: string;
  roles: string;
  tier?: string;
  initNode?: boolean;
  plan: string;
  state: string;
  member?: string;
  change: string;
  message?: string;
}

export interface ObjectEvent {
  type: string;
  reason: string;
  message: string;
  object: string;
  count: number;
  first: string;
  last: string;
}

export interface Plan {
  delivered: string | null;
  applied: string | null;
  failed: { instruction: string; attempts: number; output: string } | null;
  instructions: { name: string; image?: string }[] | null;
  files: string[] | null;
  probes: { name: string; healthy: boolean; since?: string }[] | null;
  agentVersion?: string;
}

/** A reason why a manifest or a form cannot be written. */
export interface Problem {
  /** From 1, in the whole text. */
  line?: number;
  column?: number;
  field?: string;
  message: string;
}

/** What an edited manifest would do. */
export interface PreviewReport {
  cluster: string;
  /** The cluster does not exist yet. */
  new?: boolean;
  result: string;
  machines?: PreviewMachine[];
  order?: { name: string; pace: string; machines?: string[] }[];
  fields?: { field: string; class: string }[];
  restored?: { field: string; old: string; new: string }[];
  operations?: { field: string; running?: boolean; held?: string; problem?: string; stuck?: string }[];
  notes?: string[];
  warnings?: { field: string; message: string }[];
}

export interface PreviewMachine {
  name?: string;
  pool?: string;
  roles?: string;
  class: string;
  drained?: boolean;
  stage?: number;
  causes?: { field: string; class: string }[];
  /** The whole change is independent of the edit. */
  pending?: boolean;
  held?: string;
  problem?: string;
}

/** A list that the user may be forbidden to read. */
export type Part<T> = { items: T[] | null; error?: undefined } | { items?: undefined; error: string; reason: string };

export interface Administration {
  drivers: Part<{
    name: string;
    displayName: string;
    active: boolean;
    builtin: boolean;
    url?: string;
    conditions?: Condition[];
  }>;
  credentials: Part<{ namespace: string; name: string; displayName: string; driver: string; usedBy: string[] | null }>;
  registrationTokens: Part<{
    namespace: string;
    name: string;
    cluster: string;
    created: string;
    expires?: string | null;
    roles?: string[] | null;
    uses?: number;
  }>;
  leader: { holder?: string; since?: string; renewed?: string; error?: string };
  versions: {
    drover: string;
    kubernetes?: string;
    replicas: { name: string; version?: string }[] | null;
    error?: string;
  };
}
