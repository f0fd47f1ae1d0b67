import { Link } from '@tanstack/react-router';
import { lazy, Suspense, useMemo } from 'react';
import { useAdministration } from '../../api/queries';
import type { Administration } from '../../api/types';
import { sentence } from '../../components/Command';
import { Failure } from '../../components/Notice';
import { Since } from '../../components/Since';
import { ToneIcon } from '../../components/StateBadge';
import { useClusters, useMachinesByCluster } from '../../live/hooks';
import { useTitle } from '../../layout/Shell';
import { Credentials } from './Credentials';
import { Denied, PartTable, Section } from './parts';
import { stuckByReason } from './fleet';
import './administration.css';

const StageDurations = lazy(() => import('./StageDurations'));

export function AdministrationPage() {
  useTitle('Administration');
  const { data, error, refetch } = useAdministration();
  return (
    <>
      <h1 className="visually-hidden">Administration</h1>
      {error && <Failure error={error} retry={refetch} />}
      <div className="administration">
        <div className="column">
          <Stuck />
          {data && <Credentials part={data.credentials} />}
        </div>
        {data && (
          <div className="column">
            <Server data={data} />
            <Drivers part={data.drivers} />
            <Tokens part={data.registrationTokens} />
          </div>
        )}
        <Section title="Durations of stages" className="whole">
          <Suspense>
            <StageDurations />
          </Suspense>
        </Section>
      </div>
    </>
  );
}

function Server({ data: { leader, versions } }: { data: Administration }) {
  return (
    <Section title="Server">
      <dl className="facts">
        <dt>Drover</dt>
        <dd>{versions.drover}</dd>
        <dt>Kubernetes</dt>
        <dd>{versions.kubernetes ?? 'unknown'}</dd>
        {!!versions.replicas?.length && (
          <>
            <dt>Replicas</dt>
            <dd>
              {versions.replicas.map((r) => (
                <div key={r.name}>
                  {r.name}
                  {r.version && r.version !== versions.drover && ` (${r.version})`}
                </div>
              ))}
            </dd>
          </>
        )}
        {!leader.error && (
          <>
            <dt>Leader</dt>
            <dd>{leader.holder || 'none'}</dd>
            <dt>Leads for</dt>
            <dd>
              <Since time={leader.since} />
            </dd>
            <dt>Renewed</dt>
            <dd>
              <Since time={leader.renewed} suffix=" ago" />
            </dd>
          </>
        )}
      </dl>
      {versions.error && <Denied error={versions.error} />}
      {leader.error && leader.error !== versions.error && <Denied error={leader.error} />}
    </Section>
  );
}

function Stuck() {
  const clusters = useClusters();
  const machines = useMachinesByCluster();
  const reasons = useMemo(() => stuckByReason(clusters, machines), [clusters, machines]);
  return (
    <Section title="What clusters and machines wait for">
      {reasons.length === 0 ? (
        <p className="dim">All clusters are ready, and all machines run.</p>
      ) : (
        <table className="plain">
          <thead>
            <tr>
              <th>Reason</th>
              <th className="number">Clusters</th>
              <th className="number">Machines</th>
              <th>Longest</th>
            </tr>
          </thead>
          <tbody>
            {reasons.map((r) => (
              <tr key={r.reason} title={r.message}>
                <td>
                  {r.clusters ? (
                    <Link to="/clusters" search={{ q: r.reason }}>
                      {r.reason}
                    </Link>
                  ) : (
                    r.reason
                  )}
                </td>
                <td className="number">{r.clusters || '–'}</td>
                <td className="number">{r.machines || '–'}</td>
                <td className="dim">
                  <Since time={r.oldest} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

function Drivers({ part }: { part: Administration['drivers'] }) {
  return (
    <PartTable
      title="Node drivers"
      part={part}
      empty="No node driver exists."
      columns={[
        {
          title: 'Driver',
          cell: (d) => (
            <>
              <b>{d.displayName || d.name}</b> <span className="dim">{d.name}</span>
            </>
          ),
        },
        {
          title: 'State',
          cell: (d) => {
            const bad = d.conditions?.find((c) => c.status === 'False' && c.message);
            return (
              <span className="driver-state">
                <ToneIcon tone={bad ? 'bad' : d.active ? 'good' : 'off'} size={14} />
                {bad ? sentence(bad.message ?? '') : d.active ? 'Active' : 'Inactive'}
              </span>
            );
          },
        },
        { title: 'Source', cell: (d) => (d.builtin ? 'built in' : (d.url ?? '–')) },
      ]}
    />
  );
}

function Tokens({ part }: { part: Administration['registrationTokens'] }) {
  return (
    <PartTable
      title="Registration tokens"
      note="Names only"
      part={part}
      empty="No registration token exists."
      columns={[
        {
          title: 'Token',
          cell: (t) => (
            <b>
              {t.namespace}/{t.name}
            </b>
          ),
        },
        { title: 'Cluster', cell: (t) => t.cluster },
        { title: 'Roles', cell: (t) => t.roles?.join(', ') || '–' },
        { title: 'Created', cell: (t) => <Since time={t.created} suffix=" ago" /> },
        { title: 'Expires', cell: (t) => (t.expires ? new Date(t.expires).toLocaleString() : 'never') },
      ]}
    />
  );
}
