/** A duration: 42s, 2m30s, 15m, 3h, 12d. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 600) return s % 60 ? `${Math.floor(s / 60)}m${s % 60}s` : `${s / 60}m`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172_800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86_400)}d`;
}

/** The age of a time, in whole minutes from one minute on, so that it does not flicker. */
export function formatAge(time: string, now: number): string {
  const s = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  return s >= 60 && s < 600 ? `${Math.floor(s / 60)}m` : formatDuration(s);
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

export function formatExact(time: string): string {
  const value = new Date(time);
  return Number.isNaN(value.getTime()) ? time : exact.format(value);
}

export function secondsBetween(begin: string, end: string | number): number {
  return (new Date(end).getTime() - Date.parse(begin)) / 1000;
}
