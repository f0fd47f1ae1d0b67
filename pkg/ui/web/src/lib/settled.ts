import { useEffect, useState } from 'react';

/** How long a text stays the same before a request about it. */
export const typingPause = 300;

/** A value that follows another one when it stays the same for some milliseconds. */
export function useSettled<T>(value: T, pause = typingPause): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [value, pause]);
  return settled;
}
