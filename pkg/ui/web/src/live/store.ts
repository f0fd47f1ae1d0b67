import type { Cluster, Machine } from '../api/types';

export type Kind = 'clusters' | 'machines';

/** A change of rows. */
export interface Change {
  kind: Kind;
  /** True if put has all rows of the kind. */
  reset?: boolean;
  put?: (Cluster | Machine)[] | null;
  /** NAMESPACE/NAME of removed rows. */
  gone?: string[] | null;
}

/** A kind of object that the server cannot read in a namespace. */
export interface Problem {
  kind: Kind;
  namespace: string;
  error: string;
  reason: string;
}

/** Everything that the stream has delivered. A part keeps its identity until it changes. */
export interface Snapshot {
  clusters: ReadonlyMap<string, Cluster>;
  clusterList: readonly Cluster[];
  /** The machines of each cluster, by name. */
  machines: ReadonlyMap<string, readonly Machine[]>;
  synced: ReadonlySet<Kind>;
  problems: readonly Problem[];
}

export const keyOf = (row: { namespace: string; name: string }) => `${row.namespace}/${row.name}`;
const ownerOf = (machine: Machine) => `${machine.namespace}/${machine.cluster}`;
const empty: Snapshot = { clusters: new Map(), clusterList: [], machines: new Map(), synced: new Set(), problems: [] };

/**
 * Collects changes and publishes them together, at most once for each call of schedule's callback. In the browser that
 * is an animation frame, so a burst of changes costs one rendering.
 */
export class RowStore {
  private readonly clusters = new Map<string, Cluster>();
  private readonly machines = new Map<string, Machine>();
  private readonly owned = new Map<string, Map<string, Machine>>();
  private readonly touched = new Set<string>();
  private readonly synced = new Set<Kind>();
  private readonly problems = new Map<string, Problem>();
  private readonly listeners = new Set<() => void>();
  private clustersChanged = false;
  private scheduled = false;
  private published = empty;

  constructor(private readonly schedule: (publish: () => void) => void) {}

  readonly snapshot = () => this.published;

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  apply(change: Change) {
    if (change.kind === 'clusters') this.applyClusters(change);
    else this.applyMachines(change);
    this.publishSoon();
  }

  setSynced(kind: Kind) {
    this.synced.add(kind);
    this.publishSoon();
  }

  setProblem(problem: Problem) {
    this.problems.set(`${problem.kind}/${problem.namespace}`, problem);
    this.publishSoon();
  }

  clearProblem(problem: Pick<Problem, 'kind' | 'namespace'>) {
    this.problems.delete(`${problem.kind}/${problem.namespace}`);
    this.publishSoon();
  }

  /** Forgets the problems of a former connection. */
  clearProblems() {
    this.problems.clear();
    this.publishSoon();
  }

  /** Forgets everything, for another user or another selection of namespaces. */
  clear() {
    this.apply({ kind: 'clusters', reset: true });
    this.apply({ kind: 'machines', reset: true });
    this.synced.clear();
    this.problems.clear();
  }

  private applyClusters({ reset, put, gone }: Change) {
    this.clustersChanged = true;
    if (reset) this.clusters.clear();
    for (const row of (put ?? []) as Cluster[]) this.clusters.set(keyOf(row), row);
    for (const key of gone ?? []) this.clusters.delete(key);
  }

  private applyMachines({ reset, put, gone }: Change) {
    for (const key of reset ? [...this.machines.keys()] : (gone ?? [])) this.removeMachine(key);
    for (const machine of (put ?? []) as Machine[]) {
      const key = keyOf(machine);
      this.removeMachine(key);
      this.machines.set(key, machine);
      const owner = ownerOf(machine);
      const siblings = this.owned.get(owner) ?? new Map<string, Machine>();
      this.owned.set(owner, siblings.set(key, machine));
      this.touched.add(owner);
    }
  }

  private removeMachine(key: string) {
    const machine = this.machines.get(key);
    if (!machine) return;
    const owner = ownerOf(machine);
    this.machines.delete(key);
    this.owned.get(owner)?.delete(key);
    this.touched.add(owner);
  }

  private publishSoon() {
    if (this.scheduled) return;
    this.scheduled = true;
    this.schedule(() => {
      this.scheduled = false;
      this.publish();
    });
  }

  private publish() {
    const next = { ...this.published, synced: new Set(this.synced), problems: [...this.problems.values()] };
    if (this.clustersChanged) {
      next.clusters = new Map(this.clusters);
      next.clusterList = [...this.clusters.values()];
    }
    if (this.touched.size) next.machines = this.regroup();
    this.clustersChanged = false;
    this.touched.clear();
    this.published = next;
    this.listeners.forEach((listener) => listener());
  }

  private regroup() {
    const machines = new Map(this.published.machines);
    for (const owner of this.touched) {
      const rows = [...(this.owned.get(owner)?.values() ?? [])];
      if (rows.length)
        machines.set(
          owner,
          rows.sort((a, b) => a.name.localeCompare(b.name)),
        );
      else machines.delete(owner);
    }
    return machines;
  }
}
