import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useMemo, useRef } from 'react';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { formatDuration } from '../../lib/time';
import { useClusters, useMachinesByCluster } from '../../live/hooks';
import { binStarts, histogram, quantile, stageDurations, type StageDurations as Durations } from './fleet';

/** How long each stage took in all clusters and machines that the user sees: a histogram for each stage. */
export default function StageDurations() {
  const clusters = useClusters();
  const machines = useMachinesByCluster();
  const stages = useMemo(() => stageDurations(clusters, machines), [clusters, machines]);
  if (stages.length === 0) return <p className="dim">No cluster has passed a stage yet.</p>;
  return (
    <ul className="plots">
      {stages.map((stage) => (
        <li key={stage.name}>
          <div className="plot-head">
            <h3>{stage.name}</h3>
            <span className="dim">
              {stage.seconds.length} {stage.of}
            </span>
          </div>
          <p className="dim">
            median <b>{formatDuration(quantile(stage.seconds, 0.5))}</b>, 95 % within{' '}
            <b>{formatDuration(quantile(stage.seconds, 0.95))}</b>
          </p>
          <Plot stage={stage} />
        </li>
      ))}
    </ul>
  );
}

const height = 120;

function Plot({ stage }: { stage: Durations }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(undefined);
  const scheme = useComputedColorScheme();
  const data = useMemo(() => {
    const { bins, counts } = histogram(stage.seconds);
    return [bins, counts] as UPlot.AlignedData;
  }, [stage]);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = box.current!;
    const chart = new UPlot(optionsFor(element), latest.current, element);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [scheme]); // a canvas does not follow the colours of the page

  useEffect(() => plot.current?.setData(data), [data]);
  return (
    <div ref={box} className="plot" role="img" aria-label={`Histogram of the durations of stage ${stage.name}`} />
  );
}

function optionsFor(element: HTMLElement): UPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour('--dim'), ticks: { show: false }, font: `11px ${style.fontFamily}` };
  return {
    width: element.clientWidth || 300,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 4, 0, 0],
    scales: {
      x: { time: false, range: (_, min, max) => [min - 0.6, max + 0.6] },
      y: { range: (_, _min, max) => [0, max * 1.05] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        incrs: [1, 2, 4],
        space: 44,
        values: (_, bins) => bins.map((b) => formatDuration(binStarts[b] ?? 0)),
      },
      {
        ...axis,
        grid: { stroke: colour('--border'), width: 1 },
        size: 40,
        space: 32,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
      },
    ],
    series: [
      {},
      {
        fill: colour('--busy'),
        width: 0,
        points: { show: false },
        paths: UPlot.paths.bars!({ size: [0.86, 48], radius: 0.15 }),
      },
    ],
  };
}
