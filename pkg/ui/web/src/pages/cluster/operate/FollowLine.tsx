import { CloseButton } from '@mantine/core';
import { useEffect, useRef } from 'react';
import { queryClient } from '../../../api/queries';
import type { Cluster } from '../../../api/types';
import { Notice } from '../../../components/Notice';
import { agentProgress, isAboutAgents, progress, progressOf, type Progress } from './follow';
import { runningIn } from './kinds';
import { refetchEvents, snapshotsKey, useFollowedEvents } from './queries';
import { follow, useRequested } from './requests';

/** Whether the row's own message is the step of an operation, so that one line says both. */
export const saysOperation = (cluster: Cluster) =>
  runningIn(cluster) !== undefined || isAboutAgents(cluster.message, cluster.conditions);

/** A line about the operation that this window has requested, or that runs, or about the upgrade of agents. */
export function FollowLine({ cluster }: { cluster: Cluster }) {
  const requested = useFollowed(cluster);
  const running = runningIn(cluster);
  const line = requested ?? (running ? progress(running) : agentProgress(cluster.conditions));
  if (!line) return null;
  const close = requested && (
    <CloseButton size="sm" aria-label="Stop following the operation" onClick={() => follow(cluster, undefined)} />
  );
  return (
    <Notice tone={line.tone} action={close}>
      {line.text}
    </Notice>
  );
}

/** The progress of the operation that this window has requested. */
function useFollowed(cluster: Cluster): Progress | undefined {
  const request = useRequested(cluster);
  const { data, error } = useFollowedEvents(cluster, request?.field !== undefined);
  const last = useRef(false);
  useEffect(() => {
    // The end of an operation changes the row of the cluster.
    if (request) void refetchEvents(cluster);
  }, [request, cluster]);
  const line = request && progressOf(request, cluster, data?.items ?? []);
  const ended = line?.ended ?? false;
  useEffect(() => {
    if (ended && !last.current) {
      void queryClient.invalidateQueries({ queryKey: snapshotsKey(cluster) });
    }
    last.current = ended;
  }, [ended, cluster]);
  if (line && !ended && error)
    return { ...line, text: `${line.text} You may not read the Events that say how it ends.` };
  return line;
}
