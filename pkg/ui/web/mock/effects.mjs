// What an edit of made-up machines would do, for the edits that pages make: another version, a profile, other sizes of pools.

const sizesIn = (text) =>
  new Map([...text.matchAll(/- name: (\S+)\n\s+quantity: (\d+)/g)].map(([, name, size]) => [name, Number(size)]));

const unchanged = (machine) => ({ name: machine.name, pool: machine.pool, class: 'None' });

/** Every machine restarts, the servers first. */
function restart(machines, field) {
  const causes = [{ field, class: 'Restart' }];
  const isServer = (m) => m.roles.includes('etcd');
  return {
    result: 'Restart',
    machines: machines.map((m) => ({
      ...unchanged(m),
      class: 'Restart',
      drained: !isServer(m),
      stage: isServer(m) ? 1 : 2,
      causes,
    })),
    order: [
      { name: 'control plane', pace: '1' },
      { name: 'pool workers', pace: '10%' },
    ],
    fields: causes,
  };
}

function scale(row, machines, sizes) {
  const out = [];
  let result = 'None';
  for (const [at, { name }] of row.pools.entries()) {
    const own = machines.filter((m) => m.pool === name);
    const wanted = sizes.get(name) ?? own.length;
    const causes = [{ field: `spec.rkeConfig.machinePools[${at}].quantity`, class: 'Add' }];
    own.forEach((m, i) =>
      out.push(i < wanted ? unchanged(m) : { ...unchanged(m), class: 'Remove', drained: true, stage: 1, causes }),
    );
    for (let i = own.length; i < wanted; i++) out.push({ pool: name, class: 'Add', stage: 1, causes });
    if (wanted !== own.length) result = wanted > own.length ? 'Add' : 'Remove';
  }
  return { result, machines: out };
}

/** The report of an edit, or undefined if the edit is of another kind. */
export function effectsOf(row, machines, text) {
  const cluster = `${row.namespace}/${row.name}`;
  const version = /kubernetesVersion: (\S+)/.exec(text)?.[1];
  if (version && version !== row.version) return { cluster, ...restart(machines, 'spec.kubernetesVersion') };
  const sizes = sizesIn(text);
  if ((row.pools ?? []).some(({ name, wanted }) => sizes.has(name) && sizes.get(name) !== wanted))
    return { cluster, ...scale(row, machines, sizes) };
  if (/^ +profile:/m.test(text))
    return { cluster, ...restart(machines, 'spec.rkeConfig.machineGlobalConfig.profile') };
  if (/etcdSnapshotCreate/.test(text)) return { cluster, result: 'None', machines: machines.map(unchanged) };
  return undefined;
}
