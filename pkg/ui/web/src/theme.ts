import { createTheme, type MantineColorsTuple } from '@mantine/core';

const blue: MantineColorsTuple = [
  '#eef4ff',
  '#dbe7fe',
  '#b7cdfb',
  '#8fb1f6',
  '#6796f0',
  '#3f7be6',
  '#2563d4',
  '#1d52b5',
  '#194593',
  '#153a78',
];

const dark: MantineColorsTuple = [
  '#e4e7ec',
  '#b8bfca',
  '#9aa3b2',
  '#6b7482',
  '#3a414d',
  '#272c35',
  '#1c2027',
  '#15181e',
  '#0e1014',
  '#0a0c0f',
];

export const theme = createTheme({
  colors: { blue, dark },
  primaryColor: 'blue',
  primaryShade: 6,
  defaultRadius: 'sm',
  radius: { xs: '4px', sm: '6px', md: '8px', lg: '10px', xl: '14px' },
  fontFamily: 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif',
  fontFamilyMonospace:
    'ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, "Noto Sans Mono", "DejaVu Sans Mono", monospace',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  focusRing: 'auto',
  cursorType: 'pointer',
  // The placeholder is an element that a menu must not have. Without it the first item gets the focus.
  components: { Menu: { defaultProps: { withInitialFocusPlaceholder: false } } },
});

/** The nonce of this page. The server writes it into the page for styles that libraries add. */
export const styleNonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
