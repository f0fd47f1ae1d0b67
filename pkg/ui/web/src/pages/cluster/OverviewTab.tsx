import { Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';
import { useDiagnosis, useExplanation } from '../../api/queries';
import type { Cluster, Decision, Report } from '../../api/types';
import { sentence } from '../../components/Command';
import { Failure, Notice } from '../../components/Notice';
import { Since } from '../../components/Since';
import { StateBadge } from '../../components/StateBadge';
import { isOfHosts } from '../../registration/registration';
import { DiagnosisTree } from './DiagnosisTree';
import { Timeline } from './Timeline';

const MissingHosts = lazy(() => import('../../registration/MissingHosts'));

/** What is wrong and what to do, then how the cluster came to its state. */
export function OverviewTab({ cluster }: { cluster: Cluster }) {
  return (
    <div className="overview">
      {isOfHosts(cluster) && (
        <Suspense>
          <MissingHosts cluster={cluster} />
        </Suspense>
      )}
      <DiagnosisCard cluster={cluster} />
      <div className="overview-side">
        <Timeline cluster={cluster} />
        <PlannerCard cluster={cluster} />
      </div>
    </div>
  );
}

const words = {
  OK: 'Every check works.',
  Waiting: 'Drover continues by itself.',
  Broken: 'The first broken check is open. It says what to do.',
} as Record<Report['result'], string>;

function DiagnosisCard({ cluster }: { cluster: Cluster }) {
  const { data, error, refetch } = useDiagnosis(cluster.namespace, cluster.name);
  return (
    <section className="card" aria-label="Diagnosis">
      <div className="card-head">
        <h2>Diagnosis</h2>
        {data && <StateBadge state={data.result} />}
        <span className="grow" />
        {data && (
          <span className="dim">
            checked <Since time={data.at} suffix=" ago" />
          </span>
        )}
      </div>
      <div className="card-body">
        {error && <Failure error={error} retry={refetch} />}
        {!data && !error && <Placeholder lines={8} />}
        {data && (
          <>
            <p className="dim">{words[data.result]}</p>
            <DiagnosisTree report={data} />
            {!!data.notes?.length && <Notes notes={data.notes} />}
          </>
        )}
      </div>
    </section>
  );
}

/** What the diagnosis could not read. A user with few permissions gets many of these. */
function Notes({ notes }: { notes: string[] }) {
  return (
    <details className="notes">
      <summary>
        {notes.length === 1 ? '1 note' : `${notes.length} notes`} <span className="dim">about incomplete checks</span>
      </summary>
      <ul className="dim">
        {notes.map((note) => (
          <li key={note}>{sentence(note)}</li>
        ))}
      </ul>
    </details>
  );
}

export function Placeholder({ lines }: { lines: number }) {
  return (
    <div className="placeholder-lines" aria-busy="true">
      {Array.from({ length: lines }, (_, i) => (
        <Skeleton key={i} height={14} width={`${90 - ((i * 17) % 40)}%`} />
      ))}
    </div>
  );
}

function PlannerCard({ cluster }: { cluster: Cluster }) {
  const { data, error, refetch } = useExplanation(cluster.namespace, cluster.name);
  if (cluster.imported || (data && !data.decision)) return null;
  return (
    <section className="card" aria-label="Planner">
      <div className="card-head">
        <h2>Planner</h2>
      </div>
      <div className="card-body">
        {error && <Failure error={error} retry={refetch} />}
        {!data && !error && <Placeholder lines={4} />}
        {data?.settingsUnknown && <Notice tone="off">{sentence(data.settingsUnknown)}</Notice>}
        {data?.decision && <Planner decision={data.decision} />}
      </div>
    </section>
  );
}

function Planner({ decision }: { decision: Decision }) {
  const { step, wait, effects, passed } = decision;
  return (
    <dl className="facts">
      <dt>Step</dt>
      <dd>{step}</dd>
      <dt>Waits for</dt>
      <dd>{wait ? sentence(wait.message) : 'nothing'}</dd>
      {wait && (
        <>
          <dt>Continues</dt>
          <dd>
            {wait.needsPerson
              ? 'after a person has repaired the cause'
              : `on a change of ${(wait.wakes ?? []).join(', ')}`}
            {wait.after && `, checks again after ${wait.after}`}
          </dd>
        </>
      )}
      {!!effects?.length && (
        <>
          <dt>Does now</dt>
          <dd>
            <ul>
              {effects.map((effect) => (
                <li key={effect}>{sentence(effect)}</li>
              ))}
            </ul>
          </dd>
        </>
      )}
      {!!passed?.length && (
        <>
          <dt>Passed</dt>
          <dd className="dim">{passed.map((trace) => trace.step).join(', ')}</dd>
        </>
      )}
    </dl>
  );
}
