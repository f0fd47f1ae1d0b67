import { Button } from '@mantine/core';
import { useMemo, useState } from 'react';
import type { Cluster } from '../../api/types';
import { useClock } from '../../lib/clock';
import { formatDuration } from '../../lib/time';
import { useMachines } from '../../live/hooks';
import { endOf, lanesOf, ticks, type Bar, type Lane } from './stages';

const meanings: Record<string, string> = {
  objects: 'Drover makes the objects of Cluster API',
  bootstrap: 'the first machines are made, and the API of the cluster answers',
  join: 'all machines get their plans',
  infrastructure: 'the host is made',
  node: 'the node starts and joins',
};

const shownAtFirst = 12;

/** The time from apply to Ready, with a bar for each stage of the cluster and of its machines. */
export function Timeline({ cluster }: { cluster: Cluster }) {
  const machines = useMachines(cluster.namespace, cluster.name);
  const running = cluster.stages?.some((stage) => !stage.end) ?? false;
  // The clock moves the end of running stages. A finished timeline stands still.
  const now = useClock((time) => (running ? time : 0));
  const lanes = useMemo(() => lanesOf(cluster, machines, now || Date.now()), [cluster, machines, now]);
  const [all, setAll] = useState(false);
  const end = endOf(lanes) * 1.02;
  if (lanes[0]!.bars.length === 0) return null;
  const shown = all ? lanes : lanes.slice(0, shownAtFirst + 1);
  return (
    <section className="card" aria-label="Timeline">
      <div className="card-head">
        <h2>From apply to Ready</h2>
        <span className="grow" />
        <span className="dim">
          {running ? 'running for ' : 'took '}
          {formatDuration(endOf(lanes.slice(0, 1)))}
        </span>
      </div>
      <div className="card-body">
        <Stages own={lanes[0]!.bars} machines={lanes.slice(1)} />
        <div className="timeline">
          {shown.map((lane) => (
            <LaneRow key={lane.label} lane={lane} end={end} />
          ))}
          <div className="lane scale" aria-hidden="true">
            <span />
            <div className="track">
              {ticks(end).map((at) => (
                <span key={at} style={{ left: `${(at / end) * 100}%` }}>
                  {formatDuration(at)}
                </span>
              ))}
            </div>
          </div>
        </div>
        {lanes.length > shown.length && (
          <Button variant="subtle" size="compact-sm" onClick={() => setAll(true)}>
            Show {lanes.length - shown.length} more machines
          </Button>
        )}
      </div>
    </section>
  );
}

/** The legend. The stages of the cluster have one duration, those of its machines have many. */
function Stages({ own, machines }: { own: Bar[]; machines: Lane[] }) {
  const ofMachines = [...new Set(machines.flatMap((lane) => lane.bars.map((bar) => bar.name)))];
  return (
    <ul className="stages">
      {own.map((bar) => (
        <li key={bar.name} title={meanings[bar.name]}>
          <span className="swatch" data-stage={bar.name} />
          <b>{bar.name}</b>
          <span className="dim">
            {formatDuration(bar.end - bar.begin)}
            {bar.running && ' so far'}
          </span>
        </li>
      ))}
      {ofMachines.map((name) => (
        <li key={name} title={meanings[name]}>
          <span className="swatch" data-stage={name} />
          {name}
        </li>
      ))}
    </ul>
  );
}

const describe = (bar: Bar) =>
  `${bar.name}: ${formatDuration(bar.end - bar.begin)}${bar.running ? ' so far' : ''}, ${meanings[bar.name] ?? ''}`;

function LaneRow({ lane, end }: { lane: Lane; end: number }) {
  return (
    <div className="lane">
      <span className="clip lane-label" title={lane.label}>
        {lane.label}
      </span>
      <div className="track" role="img" aria-label={lane.bars.map(describe).join('; ')}>
        {lane.bars.map((bar) => (
          <span
            key={bar.name}
            className="bar"
            data-stage={bar.name}
            data-running={bar.running}
            title={describe(bar)}
            style={{ left: `${(bar.begin / end) * 100}%`, width: `${((bar.end - bar.begin) / end) * 100}%` }}
          />
        ))}
      </div>
    </div>
  );
}
