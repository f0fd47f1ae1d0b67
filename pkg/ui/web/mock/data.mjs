// Made-up clusters and machines for development and screenshots. The same seed gives the same data.

let seed = 7;
const random = () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
};
const pick = (list) => list[Math.floor(random() * list.length)];
const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
const after = (time, seconds) => new Date(new Date(time).getTime() + seconds * 1000).toISOString();

const namespaces = ['fleet-default', 'shop', 'data-platform', 'edge-north', 'edge-south', 'research'];
const teams = ['shop', 'billing', 'search', 'media', 'ledger', 'signal', 'atlas', 'harbor', 'orchid', 'falcon'];
const places = ['fra', 'ams', 'nyc', 'sgp', 'gru', 'syd', 'lab'];
const versions = ['v1.36.2+rke2r1', 'v1.36.2+k3s1', 'v1.35.6+rke2r1', 'v1.35.6+k3s1', 'v1.34.9+rke2r1'];
const waits = [
  ['ConfiguringNodes', 'configuring control plane nodes: waiting for agent to apply the plan on 1 of 3 machines'],
  ['WaitingForMachines', 'waiting for 2 machines of pool workers: their hosts are being created'],
  ['DrainingNodes', 'draining node workers-7xk2p: a PodDisruptionBudget allows no eviction of shop/checkout'],
  ['InfrastructureNotReady', 'waiting for the infrastructure of the cluster'],
];
const failures = [
  [
    'EtcdMembersUnhealthy',
    'etcd members on 2 of 3 machines do not answer; the planner changes nothing until a quorum is back',
  ],
  ['HostCreationFailed', 'Job provision: the cloud answers 403: the credential cc-aws01 may not run instances'],
  ['InvalidVersion', 'spec.kubernetesVersion: v1.33.99+rke2r1 is no known release; the nearest is v1.33.14+rke2r1'],
];

const condition = (type, status, since, reason, message) => ({ type, status, since, reason, message });

function stagesOf(created, state) {
  const lengths = { objects: 1 + random() * 4, bootstrap: 90 + random() * 260, join: 60 + random() * 300 };
  const stages = [];
  let at = created;
  const stop = state === 'Waiting' ? 1 + Math.floor(random() * 2) : 3;
  for (const [name, length] of Object.entries(lengths)) {
    const end = after(at, length);
    if (stages.length === stop) {
      stages.push({ name, begin: at });
      break;
    }
    stages.push({ name, begin: at, end });
    at = end;
  }
  return stages;
}

function decide() {
  const dice = random();
  if (dice < 0.86) return ['Ready'];
  if (dice < 0.93) return ['Waiting', ...pick(waits)];
  if (dice < 0.96) return ['Failed', ...pick(failures)];
  if (dice < 0.98) return ['Paused', 'Paused', 'a user paused the cluster'];
  return ['Deleting', 'Deleting', 'waiting for 3 machines to be removed'];
}

function cluster(namespace, name, [state, reason, message], age) {
  const created = ago(age);
  const stages = stagesOf(created, state);
  const version = pick(versions);
  const since = state === 'Ready' ? (stages.at(-1).end ?? ago(60)) : ago(Math.min(age, 20 + random() * 5400));
  const imported = random() < 0.06;
  return {
    namespace,
    name,
    id:
      'c-m-' +
      Math.floor(random() * 36 ** 8)
        .toString(36)
        .padStart(8, '0'),
    state,
    reason,
    message,
    since,
    version,
    distribution: imported ? undefined : version.includes('k3s') ? 'k3s' : 'rke2',
    imported: imported || undefined,
    pools: imported
      ? undefined
      : [
          { name: 'servers', roles: ['etcd', 'controlplane'], wanted: 3 },
          { name: 'workers', roles: ['worker'], wanted: 2 + Math.floor(random() * 5) },
        ],
    conditions: [
      condition('Created', 'True', created),
      condition('Provisioned', state === 'Ready' ? 'True' : 'False', since, reason, message),
      condition(
        'Ready',
        state === 'Ready' ? 'True' : state === 'Failed' ? 'False' : 'Unknown',
        since,
        reason,
        message,
      ),
    ],
    stages,
    created,
  };
}

function machine(owner, pool, index) {
  const busy = owner.state === 'Waiting' && index === 0;
  const broken = owner.state === 'Failed' && index === 0;
  const state =
    owner.state === 'Deleting' ? 'Deleting' : busy ? pick(['Creating', 'Joining']) : broken ? 'Unhealthy' : 'Running';
  const name = `${owner.name}-${pool.name}-7xk2p-${Math.floor(random() * 36 ** 5)
    .toString(36)
    .padStart(5, '0')}`;
  const created = after(owner.created, 3 + index);
  const joined = state === 'Running' || state === 'Unhealthy' || state === 'Deleting';
  const hostReady = after(created, 35 + random() * 30);
  const reason = {
    Creating: 'WaitingForInfrastructure',
    Joining: 'WaitingForNode',
    Unhealthy: 'NodeNotReady',
    Deleting: 'Deleting',
  }[state];
  const message = {
    Creating: 'the driver creates the host',
    Joining: 'waiting for agent to apply the plan: its node does not exist yet',
    Unhealthy: "the node's kubelet stopped posting status",
    Deleting: 'draining the node',
  }[state];
  const since = joined && state === 'Running' ? after(hostReady, 90) : ago(40 + random() * 600);
  return {
    namespace: owner.namespace,
    name,
    cluster: owner.name,
    pool: pool.name,
    roles: pool.roles,
    state,
    reason,
    message,
    since,
    node: joined ? name : undefined,
    version: joined ? owner.version : undefined,
    os: joined ? 'SUSE Linux Enterprise Micro 6.1' : undefined,
    runtime: joined ? 'containerd://2.1.4-k3s1' : undefined,
    providerID: joined ? `aws:///eu-central-1a/i-0${Math.floor(random() * 1e9)}` : undefined,
    addresses: state === 'Creating' ? undefined : ['10.0.12.' + (index + 10), '203.0.113.' + (index + 10)],
    infrastructure: 'Amazonec2Machine',
    infrastructureName: name,
    conditions: [
      condition('InfrastructureReady', state === 'Creating' ? 'False' : 'True', hostReady),
      condition('BootstrapConfigReady', 'True', created),
      condition('NodeReady', joined ? (state === 'Unhealthy' ? 'Unknown' : 'True') : 'False', since, reason, message),
      condition(
        'PlanApplied',
        busy || broken ? 'False' : 'True',
        since,
        busy || broken ? 'WaitingForPlan' : undefined,
        message,
      ),
    ],
    stages:
      state === 'Creating'
        ? [{ name: 'infrastructure', begin: created }]
        : [
            { name: 'infrastructure', begin: created, end: hostReady },
            joined
              ? { name: 'node', begin: hostReady, end: after(hostReady, 60 + random() * 120) }
              : { name: 'node', begin: hostReady },
          ],
    created,
  };
}

/** A new cluster of existing hosts. */
function ofHosts() {
  const created = ago(95);
  return {
    namespace: 'fleet-default',
    name: 'edge',
    id: 'c-m-4hx8d2qk',
    state: 'Waiting',
    reason: 'RoleMissing',
    message: 'waiting for at least one host of each role: etcd, control plane, worker',
    since: created,
    created,
    version: 'v1.36.2+k3s1',
    distribution: 'k3s',
    conditions: [],
    stages: [{ name: 'objects', begin: created, end: after(created, 2) }],
  };
}

export function makeFleet(count) {
  const clusters = [],
    machines = [];
  const add = (row) => {
    clusters.push(row);
    for (const pool of row.pools ?? []) {
      for (let i = 0; i < pool.wanted; i++) machines.push(machine(row, pool, i));
    }
  };
  if (count > 0) add(cluster('fleet-default', 'demo', ['Failed', 'EtcdMembersUnhealthy', failures[0][1]], 3600 * 5));
  if (count > 1) add(cluster('fleet-default', 'dev', ['Waiting', 'ConfiguringNodes', waits[0][1]], 320));
  for (let i = 2; i < count - 1; i++) {
    const verdict = decide();
    const age = verdict[0] === 'Waiting' ? 60 + random() * 1200 : 3600 + random() * 86400 * 200;
    add(cluster(pick(namespaces), `${pick(teams)}-${pick(places)}-${String(i).padStart(3, '0')}`, verdict, age));
  }
  if (count > 2) add(ofHosts());
  return { namespaces, clusters, machines };
}

export { ago };
