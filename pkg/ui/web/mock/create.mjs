// Answers for the page that creates a cluster, for credentials, and for registration commands.

const field = (description, more = {}) => ({ type: 'string', description, ...more });

const drivers = {
  items: [
    {
      name: 'amazonec2',
      displayName: 'Amazon EC2',
      schema: {
        required: ['region', 'vpcId'],
        properties: {
          apiVersion: { type: 'string' },
          kind: { type: 'string' },
          metadata: { type: 'object' },
          ami: field('AWS machine image'),
          blockDurationMinutes: field('AWS spot instance duration in minutes', { default: '0' }),
          deviceName: field('AWS root device name', { default: '/dev/sda1' }),
          encryptEbsVolume: { type: 'boolean', description: 'Encrypt the EBS volume' },
          iamInstanceProfile: field('AWS IAM instance profile'),
          instanceType: field('AWS instance type', { default: 't2.micro' }),
          keypairName: field('AWS keypair to use'),
          monitoring: { type: 'boolean', description: 'Enable CloudWatch monitoring' },
          openPort: { type: 'array', description: 'Make the specified port number accessible from the Internet' },
          privateAddressOnly: { type: 'boolean', description: 'Only use a private IP address' },
          region: field('AWS region', { default: 'us-east-1' }),
          rootSize: field('AWS root disk size in GB', { default: '16' }),
          securityGroup: { type: 'array', description: 'AWS VPC security group', default: ['rancher-nodes'] },
          spotPrice: field('AWS spot instance bid price in dollars', { default: '0.50' }),
          sshUser: field('SSH username', { default: 'ubuntu' }),
          subnetId: field('AWS VPC subnet ID'),
          tags: field('AWS tags, such as key1,value1,key2,value2'),
          volumeType: field('Amazon EBS volume type', { default: 'gp2', enum: ['gp2', 'gp3', 'io1'] }),
          vpcId: field('AWS VPC ID'),
          zone: field('AWS zone, such as a, b or c', { default: 'a' }),
        },
      },
      credential: [
        { name: 'accessKey', type: 'string', secret: false, required: true, description: 'AWS access key' },
        { name: 'secretKey', type: 'string', secret: true, required: true, description: 'AWS secret key' },
        { name: 'defaultRegion', type: 'string', secret: false, required: false, description: 'AWS default region' },
      ],
    },
    { name: 'nutanix', displayName: 'Nutanix' },
  ],
};

const releases = {
  k3s: ['1.33', '1.34', '1.35', '1.36'],
  rke2: ['1.33', '1.34', '1.35', '1.36'],
  networks: ['calico', 'canal', 'cilium', 'flannel', 'none'],
};

const kindOf = (driver) => `${driver[0].toUpperCase()}${driver.slice(1)}Config`;

function config({ namespace, name, driver }, pool) {
  const values = Object.entries(pool.config).map(([field, [first, ...more]]) =>
    more.length ? `${field}:\n${[first, ...more].map((v) => `- ${v}\n`).join('')}` : `${field}: ${first}\n`,
  );
  return (
    `apiVersion: rke-machine-config.cattle.io/v1\n${values.join('')}kind: ${kindOf(driver)}\n` +
    `metadata:\n  name: ${name}-${pool.name}\n  namespace: ${namespace}\n---\n`
  );
}

function poolText({ name, driver }, pool) {
  const roles = { controlplane: 'controlPlaneRole', etcd: 'etcdRole', worker: 'workerRole' };
  const lines = Object.entries(roles).flatMap(([role, field]) =>
    pool.roles.includes(role) ? [`      ${field}: true\n`] : [],
  );
  return (
    `    - name: ${pool.name}\n      quantity: ${pool.size}\n${lines.join('')}` +
    `      machineConfigRef:\n        kind: ${kindOf(driver)}\n        name: ${name}-${pool.name}\n`
  );
}

function manifest(wanted) {
  const { namespace, name, version, cni, credential, pools } = wanted;
  const configs = pools.map((pool) => config(wanted, pool)).join('');
  const rke =
    (cni ? `    machineGlobalConfig:\n      cni: ${cni}\n` : '') +
    (pools.length ? `    machinePools:\n${pools.map((pool) => poolText(wanted, pool)).join('')}` : '');
  const problems = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(name)
    ? []
    : [{ field: 'name', message: 'must consist of lower case letters, digits and "-"' }];
  return {
    manifest:
      `${configs}apiVersion: provisioning.cattle.io/v1\nkind: Cluster\n` +
      `metadata:\n  name: ${name}\n  namespace: ${namespace}\nspec:\n` +
      (credential ? `  cloudCredentialSecretName: ${credential}\n` : '') +
      `  kubernetesVersion: ${version}\n  rkeConfig:${rke ? `\n${rke}` : ' {}\n'}`,
    problems,
  };
}

const poolsOf = (yaml) =>
  [...yaml.matchAll(/- name: (\S+)\n {6}quantity: (\d+)/g)].map(([, name, size]) => ({ name, size: Number(size) }));

function preview(namespace, name, yaml) {
  const machines = poolsOf(yaml).flatMap(({ name: pool, size }) =>
    Array.from({ length: size }, () => ({ pool, class: 'Add' })),
  );
  return { seen: '', report: { cluster: `${namespace}/${name}`, new: true, result: 'Add', machines } };
}

function row(namespace, name, yaml) {
  const now = new Date().toISOString();
  return {
    namespace,
    name,
    id: 'c-m-8k2jw9xq',
    state: 'Waiting',
    reason: 'WaitingForMachines',
    message: 'waiting for machines: their hosts are being created',
    since: now,
    created: now,
    version: /kubernetesVersion: (\S+)/.exec(yaml)?.[1],
    distribution: yaml.includes('+k3s') ? 'k3s' : 'rke2',
    pools: poolsOf(yaml).map(({ name: pool, size }) => ({
      name: pool,
      wanted: size,
      roles: ['etcd', 'controlplane', 'worker'],
    })),
    conditions: [],
    stages: [{ name: 'objects', begin: now }],
  };
}

function registration(query) {
  const flags = [
    ...(query.get('roles') ?? '').split(',').map((role) => role && `--${role}`),
    ...query.getAll('labels').map((label) => `--label '${label}'`),
    ...query.getAll('taints').map((taint) => `--taint '${taint}'`),
    query.get('nodeName') && `--node-name '${query.get('nodeName')}'`,
  ].filter(Boolean);
  const script = (more) => `curl ${more}-fL https://drover.example.com/system-agent-install.sh`;
  const rest =
    `sh -s - --server https://drover.example.com --label 'cattle.io/os=linux' ` +
    `--token 7hq2vwd9xkr4tmzc8bnp5s6jg3fl --ca-checksum 9f2c66e1 ${flags.join(' ')}`;
  return {
    command: `${script('')} | sudo ${rest}`,
    insecureCommand: `${script('--insecure ')} | sudo ${rest}`,
    expires: new Date(Date.now() + 14 * 86_400_000).toISOString(),
  };
}

/** The answer for a request, or undefined if the request is for another part. "add" shows a new row. */
export function answer(method, path, query, text, fleet, add) {
  const [first, namespace, kind, name, what] = path.split('/').map(decodeURIComponent);
  const exists = fleet.clusters.some((c) => c.namespace === namespace && c.name === name);
  if (path === 'drivers') return { status: 200, body: drivers };
  if (path === 'releases') return { status: 200, body: releases };
  if (path === 'manifests') return { status: 200, body: manifest(JSON.parse(text)) };
  if (first !== 'namespaces') return undefined;
  if (kind === 'credentials') return { status: 200, body: { namespace, name: name ?? 'cc-new01' } };
  if (kind !== 'clusters') return undefined;
  if (what === 'registration') return { status: 200, body: registration(query) };
  if (exists) return undefined;
  if (what === 'preview') return { status: 200, body: preview(namespace, name, text) };
  if (!what && method === 'PUT') {
    add(row(namespace, name, text));
    return { status: 200, body: { written: [`Cluster ${namespace}/${name}`] } };
  }
  return undefined;
}
