// Icons on a grid of 16. Each is one path, drawn with strokes.
const paths = {
  check: 'M3.5 8.5 6.5 11.5 12.5 5',
  clock: 'M8 4.5V8l2.5 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z',
  cross: 'M5 5l6 6M11 5l-6 6M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z',
  alert: 'M8 6v3.2M8 11.4v.1M7 2.8 1.8 12a1.2 1.2 0 0 0 1 1.8h10.4a1.2 1.2 0 0 0 1-1.8L9 2.8a1.2 1.2 0 0 0-2 0Z',
  pause: 'M6 5.5v5M10 5.5v5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z',
  minus: 'M5 8h6M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z',
  search: 'M10.5 10.5 14 14M12 7A5 5 0 1 1 2 7a5 5 0 0 1 10 0Z',
  right: 'M6 3.5 10.5 8 6 12.5',
  close: 'M4 4l8 8M12 4l-8 8',
  down: 'M3.5 6 8 10.5 12.5 6',
  up: 'M3.5 10 8 5.5 12.5 10',
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z',
  sun:
    'M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1' +
    'M11 8a3 3 0 1 1-6 0 3 3 0 0 1 6 0Z',
  moon: 'M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1Z',
  screen: 'M2 3h12v8H2ZM5.5 13.5h5M8 11v2.5',
  user: 'M10.8 5a2.8 2.8 0 1 1-5.6 0 2.8 2.8 0 0 1 5.6 0ZM2.5 14c.6-3 2.8-4.5 5.5-4.5s4.9 1.5 5.5 4.5',
  dots: 'M3.5 8v.01M8 8v.01M12.5 8v.01',
  download: 'M8 2.5v8M4.5 7.5 8 11l3.5-3.5M2.5 13.5h11',
  server: 'M2.5 3h11v4h-11ZM2.5 9h11v4h-11ZM5 5v.01M5 11v.01',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className="icon"
    >
      <path d={paths[name]} />
    </svg>
  );
}

/** The sign of a field that opens a list. */
export const chevron = <Icon name="down" size={12} />;
