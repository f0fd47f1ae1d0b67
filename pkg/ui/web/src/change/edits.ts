import { EditError, removeAt, setAt, valueAt, type Path } from './yaml';

export { EditError } from './yaml';

// The edits of forms. Each is a text made from a text.

/** The annotation that protects a cluster from deletion. */
export const protectAnnotation = 'drover.io/protect';

const rke: Path = ['spec', 'rkeConfig'];
const version: Path = ['spec', 'kubernetesVersion'];
const labels: Path = ['metadata', 'labels'];
const protect: Path = ['metadata', 'annotations', protectAnnotation];

/** A pool of the manifest. */
export interface ManifestPool {
  name: string;
  /** The manifest can leave the size to another program. */
  quantity?: number;
  paused: boolean;
  /** An autoscaler sizes the pool between these limits. */
  scaled: boolean;
  roles: string[];
}

interface RawPool {
  name?: string;
  quantity?: number;
  paused?: boolean;
  etcdRole?: boolean;
  controlPlaneRole?: boolean;
  workerRole?: boolean;
  autoscalingMinSize?: number | null;
  autoscalingMaxSize?: number | null;
}

function rawPools(text: string): RawPool[] {
  const pools = valueAt(text, [...rke, 'machinePools']);
  return Array.isArray(pools) ? (pools as RawPool[]) : [];
}

export function poolsOf(text: string): ManifestPool[] {
  return rawPools(text).map((pool) => ({
    name: pool.name ?? '',
    quantity: pool.quantity ?? undefined,
    paused: pool.paused ?? false,
    scaled: pool.autoscalingMinSize != null && pool.autoscalingMaxSize != null,
    roles: [pool.etcdRole && 'etcd', pool.controlPlaneRole && 'control plane', pool.workerRole && 'worker'].filter(
      (role) => typeof role === 'string',
    ),
  }));
}

function poolPath(text: string, pool: string): Path {
  const at = rawPools(text).findIndex(({ name }) => name === pool);
  if (at < 0) throw new EditError(`The manifest has no machine pool ${pool}.`);
  return [...rke, 'machinePools', at];
}

/** Sets the number of machines of a pool. */
export function scale(text: string, pool: string, size: number): string {
  if (!Number.isInteger(size) || size < 0) throw new EditError('The number of machines must be 0 or more.');
  const path = [...poolPath(text, pool), 'quantity'];
  return valueAt(text, path) === size ? text : setAt(text, path, size);
}

export const versionOf = (text: string) => String(valueAt(text, version) ?? '');

/** Sets the Kubernetes version. */
export function setVersion(text: string, next: string): string {
  return versionOf(text) === next ? text : setAt(text, version, next);
}

/** Pauses a pool, or resumes it. */
export function setPaused(text: string, pool: string, paused: boolean): string {
  const path = [...poolPath(text, pool), 'paused'];
  if ((valueAt(text, path) === true) === paused) return text;
  return paused ? setAt(text, path, true) : removeAt(text, path);
}

export const isProtected = (text: string) => String(valueAt(text, protect) ?? '') === 'true';

/** Protects the cluster from deletion, or ends the protection. */
export function setProtected(text: string, on: boolean): string {
  if (isProtected(text) === on) return text;
  return on ? setAt(text, protect, 'true') : removeAt(text, protect);
}

export function labelsOf(text: string): Record<string, string> {
  const found = valueAt(text, labels);
  if (!found || typeof found !== 'object') return {};
  return Object.fromEntries(Object.entries(found).map(([key, value]) => [key, String(value)]));
}

/**
 * Changes the labels from those with which the user began to those that the user wants. A label that the user did not
 * change keeps what another user made of it meanwhile.
 */
export function setLabels(text: string, next: Record<string, string>, begun = labelsOf(text)): string {
  const now = labelsOf(text);
  let out = text;
  for (const key of Object.keys(begun)) if (!Object.hasOwn(next, key)) out = removeAt(out, [...labels, key]);
  for (const [key, value] of Object.entries(next))
    if (begun[key] !== value && now[key] !== value) out = setAt(out, [...labels, key], value);
  return out;
}

/** The operations that a field of the cluster requests with a generation. */
export type Operation = 'etcdSnapshotCreate' | 'etcdSnapshotRestore' | 'rotateCertificates' | 'rotateEncryptionKeys';

/**
 * Requests an operation: a generation that is higher by one, with the operation's own fields. A user can remove the field
 * of an earlier request, so the server may know that the generation must be higher.
 */
export function bump(text: string, operation: Operation, fields: Record<string, unknown> = {}, atLeast = 1): string {
  const path = [...rke, operation];
  const generation = Math.max(Number(valueAt(text, [...path, 'generation']) ?? 0) + 1, atLeast);
  return setAt(text, path, { ...fields, generation });
}

/** Requests an upgrade of the agents on the nodes. */
export function bumpAgents(text: string): string {
  const path: Path = ['spec', 'redeploySystemAgentGeneration'];
  return setAt(text, path, Number(valueAt(text, path) ?? 0) + 1);
}
