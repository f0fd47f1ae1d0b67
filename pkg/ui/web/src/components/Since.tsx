import { useClock } from '../lib/clock';
import { formatAge, formatExact } from '../lib/time';

/** A relative time that stays current, with the exact time in its title. */
export function Since({ time, suffix = '' }: { time?: string | null; suffix?: string }) {
  const age = useClock((now) => (time ? formatAge(time, now) : ''));
  if (!time) return <span className="dim">–</span>;
  return (
    <time dateTime={time} title={formatExact(time)}>
      {age}
      {suffix}
    </time>
  );
}
