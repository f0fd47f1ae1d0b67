// Made-up answers for one cluster, one machine and the administration page.
import { ago } from './data.mjs';

const failedOutput = [
  '[INFO]  using stable RPM repositories',
  '[INFO]  using 1.36 series from channel stable',
  'curl: (7) Failed to connect to rpm.example.com port 443: No route to host',
  '[ERROR] failed to install rke2-server',
].join('\n');

const ok = (name, object) => ({ name, object, state: 'OK' });

function machineBranch(machine, row) {
  const links = [
    ok('machine', `Machine ${row.namespace}/${machine.name}`),
    ok('bootstrap', `RKEBootstrap ${row.namespace}/${machine.name}`),
    ok('host', `Amazonec2Machine ${row.namespace}/${machine.name}`),
    ok('job', `Job of ${machine.name}`),
    ok('plan', `Secret ${row.namespace}/${machine.name}-machine-plan`),
  ];
  if (machine.state === 'Unhealthy') {
    links.push(
      {
        name: 'agent',
        object: `agent of ${machine.name}`,
        state: 'Broken',
        since: ago(840),
        what: 'its plan fails at instruction install, exit code 7, tried 100 times; the node has given up',
        why: failedOutput,
        waitsFor: "the node's next attempt",
        wokenBy: ['Secret (plan)'],
        do: [
          'check the network between both ends, with its firewalls and proxies',
          'fix the cause that the output shows, in the Cluster or on the host',
          'see its log on the host: journalctl -u rancher-system-agent',
          `retry the plan: kubectl -n ${row.namespace} annotate machines.cluster.x-k8s.io ${machine.name} ` +
            'drover.io/retry=true',
        ],
      },
      {
        name: 'node',
        object: `Node of ${machine.name}`,
        state: 'Waiting',
        what: 'its node does not answer',
        waitsFor: 'the node',
        wokenBy: ['Machine', 'Node'],
      },
    );
  } else if (machine.state === 'Creating' || machine.state === 'Joining') {
    links.push(
      {
        name: 'agent',
        object: `agent of ${machine.name}`,
        state: 'Waiting',
        since: machine.since,
        what: machine.message,
        waitsFor: 'the agent',
        wokenBy: ['Secret (plan)'],
      },
      { name: 'node', object: `Node of ${machine.name}`, state: 'Behind', what: 'its node does not exist yet' },
    );
  } else {
    links.push(ok('agent', `agent of ${machine.name}`), ok('node', `Node ${machine.name}`));
  }
  return { title: `Machine ${machine.name}`, links };
}

export function diagnose(row, machines) {
  const at = `${row.namespace}/${row.name}`;
  const bad = row.state === 'Failed';
  const branches = (row.pools ?? []).map((pool) => ({
    title: `Pool ${pool.name}`,
    links: [
      ok('pool', `MachineDeployment ${row.namespace}/${row.name}-${pool.name}`),
      ok('machines', `machines of pool ${pool.name}`),
    ],
    branches: machines.filter((m) => m.pool === pool.name).map((m) => machineBranch(m, row)),
  }));
  branches.push({
    title: 'Control plane',
    links: [
      bad
        ? {
            name: 'rollout',
            object: `RKEControlPlane ${at}`,
            state: 'Behind',
            what: 'the planner waits for a person',
            why: `${row.reason}: ${row.message}`,
            waitsFor: 'the objects in the message',
            wokenBy: ['Machine'],
          }
        : row.state === 'Waiting'
          ? {
              name: 'rollout',
              object: `RKEControlPlane ${at}`,
              state: 'Waiting',
              since: row.since,
              what: row.message,
              waitsFor: 'the machines',
              wokenBy: ['Machine'],
            }
          : ok('rollout', `RKEControlPlane ${at}`),
    ],
  });
  const tree = {
    title: `Cluster ${at}`,
    links: [
      ok('definitions', 'CustomResourceDefinitions'),
      ok('admission', 'webhooks for kinds of this cluster'),
      ok('clock', "the server's clock"),
      ok('leader', 'Lease drover-system/drover'),
      ok('owner', `Cluster ${at}`),
      ok('credential', 'credentials of clouds'),
      ok('driver', 'node drivers'),
      ok('cluster', `Cluster ${at}`),
      ok('management', `management Cluster ${row.id}`),
      ok('core', "Cluster API's core"),
      ok('pause', `CAPI Cluster ${at}`),
      ok('infrastructure', `RKECluster ${at}`),
      ok('configuration', `RKEControlPlane ${at}`),
    ],
    branches,
  };
  const findings = [];
  const walk = (branch, chain) => {
    const path = [...chain, branch.title];
    const stop = (branch.links ?? []).find((l) => l.state !== 'OK' && l.state !== 'Unknown');
    if (stop) {
      if (stop.state !== 'Behind') findings.push({ chain: path, ...stop });
      return;
    }
    for (const b of branch.branches ?? []) walk(b, path);
  };
  walk(tree, []);
  const result = findings.some((f) => f.state === 'Broken') ? 'Broken' : findings.length ? 'Waiting' : 'OK';
  return {
    cluster: at,
    result,
    at: new Date().toISOString(),
    findings,
    tree,
    notes: bad ? ['cannot read webhooks: forbidden'] : undefined,
  };
}

export function explain(row, machines) {
  const steps = ['paused', 'etcd', 'operations', 'tokens', 'bootstrap'];
  return {
    cluster: `${row.namespace}/${row.name}`,
    managedBy: 'drover',
    decision: row.imported
      ? undefined
      : {
          step: row.state === 'Ready' ? 'done' : 'configure',
          passed: steps.map((step) => ({ step, why: 'nothing to do' })),
          wait:
            row.state === 'Ready'
              ? undefined
              : {
                  reason: row.reason,
                  message: row.message,
                  wakes: ['Machine', 'PlanSecret'],
                  after: '10m0s',
                  needsPerson: row.state === 'Failed',
                },
          effects: row.state === 'Waiting' ? ['deliver the plan of the tier control plane to 1 machine'] : [],
          machines: machines.map((m, i) => ({
            name: m.name,
            roles: (m.roles ?? []).join(','),
            tier: m.pool === 'servers' ? 'control plane' : 'workers',
            initNode: i === 0,
            plan: m.state === 'Running' ? 'applied' : m.state === 'Unhealthy' ? 'failing' : 'delivered',
            state: m.state === 'Running' ? 'Healthy' : m.state === 'Unhealthy' ? 'Failed' : 'Applying',
            member: m.pool === 'servers' ? (m.state === 'Running' ? 'Healthy' : 'Absent') : undefined,
            change: 'None',
            message: m.message,
          })),
        },
  };
}

export const events = (row, machines) => ({
  items: [
    row.state !== 'Ready' && {
      type: 'Warning',
      reason: row.reason,
      message: row.message,
      object: `Cluster/${row.name}`,
      count: 14,
      first: ago(3000),
      last: ago(35),
    },
    ...machines
      .slice(0, 3)
      .map((m, i) => ({
        type: 'Normal',
        reason: 'PlanDelivered',
        message: 'the machine has a new plan',
        object: `Machine/${m.name}`,
        count: 1,
        first: ago(900 + i),
        last: ago(900 + i),
      })),
    {
      type: 'Normal',
      reason: 'InfrastructureReady',
      message: 'the hosts of pool servers exist',
      object: `Cluster/${row.name}`,
      count: 1,
      first: ago(3600),
      last: ago(3600),
    },
  ].filter(Boolean),
});

export const log = (row) =>
  [...Array(30).keys()]
    .map(
      (i) =>
        `${ago(3600 - i * 100).slice(0, 19)}Z [INFO ] ` +
        (i % 4
          ? 'configuring control plane nodes: waiting for agent to apply the plan'
          : `waiting for machines of pool workers (${(i % 3) + 1} of 3)`),
    )
    .concat(
      `${ago(500).slice(0, 19)}Z ${row.state === 'Ready' ? '[INFO ] provisioning done' : `[ERROR] ${row.message}`}`,
    )
    .join('\n') + '\n';

export const manifest = (row) => `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: ${row.name}
  namespace: ${row.namespace}
spec:
  kubernetesVersion: ${row.version}
  cloudCredentialSecretName: cattle-global-data:cc-aws01
  rkeConfig:
    machineGlobalConfig:
      cni: cilium
      disable-kube-proxy: true
    machinePools:
${(row.pools ?? [])
  .map(
    (p) => `      - name: ${p.name}
        quantity: ${p.wanted}
        etcdRole: ${p.roles.includes('etcd')}
        controlPlaneRole: ${p.roles.includes('controlplane')}
        workerRole: ${p.roles.includes('worker')}
        machineConfigRef:
          kind: Amazonec2Config
          name: nc-${row.name}-${p.name}`,
  )
  .join('\n')}
    upgradeStrategy:
      controlPlaneConcurrency: "1"
      workerConcurrency: 10%   # at most one in ten at a time
`;

export const plan = (m) => ({
  delivered: ago(900),
  applied: m.state === 'Running' ? ago(840) : null,
  failed: m.state === 'Unhealthy' ? { instruction: 'install', attempts: 100, output: failedOutput } : null,
  instructions: [
    {
      name: 'install',
      image: `rancher/system-agent-installer-rke2:${(m.version ?? 'v1.36.2+rke2r1').replace('+', '-')}`,
    },
    { name: 'capture-address' },
  ],
  files: [
    '/etc/rancher/rke2/config.yaml.d/50-rancher.yaml',
    '/etc/rancher/rke2/registries.yaml',
    '/var/lib/rancher/rke2/server/manifests/agent.yaml',
  ],
  probes: ['calico', 'etcd', 'kube-apiserver', 'kube-controller-manager', 'kubelet'].map((name, i) => ({
    name,
    healthy: m.state === 'Running' || i > 2,
    since: ago(800),
  })),
  agentVersion: 'v1.2.3',
});

export const machineLog = (m) =>
  [
    'Running pre-create checks...',
    'Creating machine...',
    `(${m.name}) Launching instance...`,
    `(${m.name}) Waiting for IP address to become available...`,
    'Machine is created.\n',
  ].join('\n');

export const administration = () => ({
  drivers: {
    items: [
      {
        name: 'amazonec2',
        displayName: 'Amazon EC2',
        active: true,
        builtin: true,
        conditions: [{ type: 'Active', status: 'True' }],
      },
      {
        name: 'vmwarevsphere',
        displayName: 'VMware vSphere',
        active: true,
        builtin: true,
        conditions: [{ type: 'Active', status: 'True' }],
      },
      { name: 'azure', displayName: 'Azure', active: false, builtin: true },
      {
        name: 'nutanix',
        displayName: 'Nutanix',
        active: true,
        builtin: false,
        url: 'https://example.com/docker-machine-driver-nutanix',
        conditions: [
          { type: 'Downloaded', status: 'False', reason: 'DownloadFailed', message: 'the download answers 404' },
        ],
      },
    ],
  },
  credentials: {
    items: [
      {
        namespace: 'cattle-global-data',
        name: 'cc-aws01',
        displayName: 'AWS production',
        driver: 'amazonec2',
        usedBy: ['fleet-default/demo', 'fleet-default/dev', 'shop/shop-fra-004', 'shop/media-ams-010'],
      },
      {
        namespace: 'cattle-global-data',
        name: 'cc-vs02',
        displayName: 'vSphere Frankfurt',
        driver: 'vmwarevsphere',
        usedBy: [],
      },
    ],
  },
  registrationTokens: {
    error: 'User "ada" cannot list clusterregistrationtokens at the cluster scope',
    reason: 'Forbidden',
  },
  leader: { holder: 'drover-6c9f7d9b5-x2x7k', since: ago(86400 * 3), renewed: ago(4) },
  versions: {
    drover: 'v1.2.3',
    kubernetes: 'v1.36.2',
    replicas: [
      { name: 'drover-6c9f7d9b5-x2x7k', version: 'v1.2.3' },
      { name: 'drover-6c9f7d9b5-9qk4d', version: 'v1.2.3' },
    ],
  },
});

export const preview = (row, machines) => ({
  cluster: `${row.namespace}/${row.name}`,
  result: 'Replace',
  machines: machines.map((m, i) => ({
    name: m.name,
    pool: m.pool,
    class: ['Restart', 'Replace', 'None'][i % 3],
    drained: i % 3 === 1,
    stage: i % 3 === 2 ? undefined : (i % 3) + 1,
    causes: i % 3 === 2 ? [] : [{ field: 'spec.kubernetesVersion', class: 'Restart' }],
  })),
  order: [
    { name: 'control plane', pace: '1', machines: [] },
    { name: 'pool workers', pace: '10%', machines: [] },
  ],
  warnings: [{ field: 'spec.kubernetesVersion', message: 'v1.35 is two versions newer than v1.33' }],
});
