import type { Cluster, Problem, Releases } from '../../api/types';
import type { Driver, FieldSchema, ManifestRequest, Role } from './types';

/** The distributions, in the order of the form. */
export const distributions = { rke2: 'RKE2', k3s: 'K3s' } as const;
export type Distribution = keyof typeof distributions;

export const roles: { value: Role; label: string }[] = [
  { value: 'etcd', label: 'etcd' },
  { value: 'controlplane', label: 'Control plane' },
  { value: 'worker', label: 'Worker' },
];

export interface PoolValues {
  /** Identifies the pool while its name changes. */
  id: number;
  name: string;
  size: string;
  roles: Role[];
  /** The values of each field of the machine config. A field without values keeps its default. */
  config: Record<string, string[]>;
}

export interface FormValues {
  namespace: string;
  name: string;
  /** The name of the node driver, or '' for existing hosts. */
  driver: string;
  credential: string;
  distribution: Distribution;
  version: string;
  cni: string;
  pools: PoolValues[];
}

export function emptyForm(namespace: string, distribution: Distribution = 'rke2', version = ''): FormValues {
  const pools = [newPool([])];
  return { namespace, name: '', driver: '', credential: '', distribution, version, cni: '', pools };
}

/** A pool with a free name. The first pool has all roles, because a cluster needs each of them. */
export function newPool(pools: readonly PoolValues[]): PoolValues {
  const id = Math.max(0, ...pools.map((pool) => pool.id)) + 1;
  if (pools.length === 0)
    return { id, name: 'servers', size: '1', roles: roles.map(({ value }) => value), config: {} };
  const taken = new Set(pools.map((pool) => pool.name));
  let name = 'workers';
  for (let n = 2; taken.has(name); n++) name = `workers${n}`;
  return { id, name, size: '1', roles: ['worker'], config: {} };
}

/** What the server makes the manifest of. Text that is no number becomes a size that the server refuses. */
export function toRequest(form: FormValues): ManifestRequest {
  const { namespace, name, version, driver, credential, cni, distribution, pools } = form;
  const common = {
    namespace: namespace.trim(),
    name: name.trim(),
    version: version.trim(),
    ...(distribution === 'rke2' && cni ? { cni } : {}),
  };
  if (!driver) return { ...common, pools: [] };
  return {
    ...common,
    driver,
    ...(credential ? { credential: credential.trim() } : {}),
    pools: pools.map((pool) => ({
      name: pool.name.trim(),
      size: /^\d{1,6}$/.test(pool.size) ? Number(pool.size) : -1,
      roles: roles.map(({ value }) => value).filter((role) => pool.roles.includes(role)),
      config: withoutEmpty(pool.config),
    })),
  };
}

function withoutEmpty(config: Record<string, string[]>): Record<string, string[]> {
  const out: Record<string, string[]> = {};
  for (const [field, values] of Object.entries(config)) {
    const set = values.filter((value) => value !== '');
    if (field && set.length) out[field] = set;
  }
  return out;
}

/** Texts about fields of the form. A key is the path of a field in the request, such as pools[0].config.size. */
export type FieldErrors = Record<string, string>;

/** What the form finds without the server. The names of existing clusters are NAMESPACE/NAME. */
export function checkForm(form: FormValues, driver: Driver | undefined, taken: ReadonlySet<string>): FieldErrors {
  const errors: FieldErrors = {};
  if (!form.namespace.trim()) errors.namespace = 'A cluster needs a namespace.';
  if (!form.name.trim()) errors.name = 'A cluster needs a name.';
  else if (taken.has(`${form.namespace.trim()}/${form.name.trim()}`))
    errors.name = `Namespace ${form.namespace.trim()} has a cluster with this name.`;
  if (!form.version.trim()) errors.version = 'A cluster needs a version, for example v1.36.2+rke2r1.';
  if (form.driver) form.pools.forEach((pool, i) => checkPool(pool, `pools[${i}]`, form.pools, driver, errors));
  return errors;
}

function checkPool(
  pool: PoolValues,
  path: string,
  pools: readonly PoolValues[],
  driver: Driver | undefined,
  errors: FieldErrors,
) {
  if (!pool.name.trim()) errors[`${path}.name`] = 'A pool needs a name.';
  else if (pools.some((other) => other.id < pool.id && other.name.trim() === pool.name.trim()))
    errors[`${path}.name`] = 'Another pool has this name.';
  if (!/^\d{1,6}$/.test(pool.size)) errors[`${path}.size`] = 'The size must be a whole number from 0.';
  if (pool.roles.length === 0) errors[`${path}.roles`] = 'A pool needs a role.';
  for (const field of fieldsOf(driver)) {
    const values = pool.config[field.name]?.filter((value) => value !== '') ?? [];
    const at = `${path}.config.${field.name}`;
    if (field.required && field.initial === '' && values.length === 0) errors[at] = 'The driver requires this field.';
    if (field.kind === 'number' && values.some((value) => !/^-?\d+$/.test(value)))
      errors[at] = 'The value must be a whole number.';
  }
}

/** A field of a machine config, as a form shows it. */
export interface Field {
  name: string;
  label: string;
  kind: 'text' | 'number' | 'boolean' | 'choice' | 'list' | 'object';
  description: string;
  /** The default of the driver as text, '' without one. */
  initial: string;
  choices: string[];
  required: boolean;
}

const notInForms = new Set(['apiVersion', 'kind', 'metadata', 'common', 'providerID']);

/** The fields of a driver's machine configs: required ones first. Values of the credential are not among them. */
export function fieldsOf(driver: Driver | undefined): Field[] {
  const { properties = {}, required = [] } = driver?.schema ?? {};
  const inCredential = new Set((driver?.credential ?? []).map((field) => field.name));
  const fields = Object.entries(properties)
    .filter(([name]) => !notInForms.has(name) && (!inCredential.has(name) || required.includes(name)))
    .map(([name, schema]) => fieldOf(name, schema, required.includes(name)));
  return fields.sort(
    (a, b) => Number(b.required) - Number(a.required) || (a.label < b.label ? -1 : a.label > b.label ? 1 : 0),
  );
}

function fieldOf(name: string, schema: FieldSchema, required: boolean): Field {
  const choices = (schema.enum ?? []).map(String);
  const kinds: Record<string, Field['kind']> = {
    boolean: 'boolean',
    integer: 'number',
    number: 'number',
    array: 'list',
    object: 'object',
  };
  return {
    name,
    label: labelOf(name),
    kind: choices.length ? 'choice' : (kinds[schema.type ?? ''] ?? 'text'),
    description: schema.description ?? '',
    initial: initialOf(schema.default),
    choices,
    required,
  };
}

function initialOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return Array.isArray(value) ? value.join(', ') : String(value);
}

const acronyms = new Set('ami api ca cpu dns ebs gpu iam id ip ssh ssl tls uri url uuid vm vpc'.split(' '));

/** The name of a field as words: instanceType is "Instance type". */
export function labelOf(name: string): string {
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1 $2').replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2');
  const written = words.split(/[\s_-]+/).map((word) => {
    if (acronyms.has(word.toLowerCase())) return word.toUpperCase();
    return /^[A-Z][a-z]/.test(word) ? word.toLowerCase() : word;
  });
  const text = written.join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The fields that a form shows before its user asks for all: required ones, set ones, and those with an error. */
export function firstFields(fields: readonly Field[], shown: ReadonlySet<string>, failed: (name: string) => boolean) {
  const first = fields.filter((field) => field.required || shown.has(field.name) || failed(field.name));
  return { first, rest: fields.filter((field) => !first.includes(field)) };
}

/** The cloud credentials that clusters of a namespace can use, with the text that refers to them. */
export function credentialChoices(
  items: readonly { namespace: string; name: string; displayName: string; driver: string }[],
  driver: string,
  namespace: string,
): { value: string; label: string }[] {
  return items
    .filter((item) => item.driver.toLowerCase() === driver.toLowerCase())
    .filter((item) => item.namespace === namespace || item.namespace === sharedNamespace)
    .map((item) => {
      const value = credentialReference(item.namespace, item.name, namespace);
      return { value, label: item.displayName ? `${item.displayName} (${value})` : value };
    });
}

/** The namespace of credentials that clusters of several namespaces use. */
export const sharedNamespace = 'cattle-global-data';

export function credentialReference(namespace: string, name: string, ofCluster: string): string {
  return namespace === ofCluster ? name : `${namespace}:${name}`;
}

export const distributionOf = (version: string): Distribution => (version.includes('+k3s') ? 'k3s' : 'rke2');

/** The versions that clusters of a distribution run, the newest first. */
export function runningVersions(clusters: readonly Cluster[], distribution: Distribution): string[] {
  const versions = new Set<string>();
  for (const { version, imported } of clusters)
    if (version?.includes('+') && !imported && distributionOf(version) === distribution) versions.add(version);
  return [...versions].sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
}

/** What a field for a version suggests: versions that run here, then the beginnings of the known minors. */
export function versionSuggestions(running: readonly string[], releases: Releases | undefined, of: Distribution) {
  const minors = [...(releases?.[of] ?? [])].reverse();
  return [...running, ...minors.map((minor) => `v${minor}.`)];
}

/** Moves a version to a distribution if clusters of it run one. Another text would be wrong. */
export function versionFor(version: string, distribution: Distribution, running: readonly string[]): string {
  if (version && version.includes('+') && distributionOf(version) === distribution) return version;
  return running[0] ?? '';
}

const poolField = /^spec\.rkeConfig\.machinePools\[(\d+)\](?:\.(\w+))?/;
const inForm: [RegExp, string][] = [
  [/^metadata\.name$/, 'name'],
  [/^metadata\.namespace$/, 'namespace'],
  [/^spec\.kubernetesVersion$/, 'version'],
  [/^spec\.cloudCredentialSecretName$/, 'credential'],
  [/^spec\.rkeConfig\.machineGlobalConfig\.cni$/, 'cni'],
];
const ofPool: Record<string, string> = {
  name: 'name',
  quantity: 'size',
  etcdRole: 'roles',
  controlPlaneRole: 'roles',
  workerRole: 'roles',
};

/** The field of the form for a path in the request, or in the manifest. Undefined if the form has no such field. */
export function formField(path: string): string | undefined {
  if (/^(namespace|name|version|cni|driver|credential|pools\[\d+\]\..+)$/.test(path)) return path;
  const pool = poolField.exec(path);
  if (pool) return ofPool[pool[2] ?? ''] && `pools[${pool[1]}].${ofPool[pool[2] ?? '']}`;
  return inForm.find(([pattern]) => pattern.test(path))?.[1];
}

/** Splits problems into those at fields of the form and all others. The first problem of a field wins. */
export function placeProblems(problems: readonly Problem[]): { errors: FieldErrors; others: Problem[] } {
  const errors: FieldErrors = {};
  const others: Problem[] = [];
  for (const problem of problems) {
    const field = problem.field && formField(problem.field);
    if (field && !(field in errors)) errors[field] = problem.message;
    else if (!field) others.push(problem);
  }
  return { errors, others };
}

/** The errors that a form shows: those of fields that its user has left, or all after an attempt to go on. */
export function visibleErrors(errors: FieldErrors, touched: ReadonlySet<string>, all: boolean): FieldErrors {
  return all ? errors : Object.fromEntries(Object.entries(errors).filter(([field]) => touched.has(field)));
}
