/**
 * All design tokens: type, space, surfaces and tones. Style sheets take their colours from these
 * variables, except shadows and plain white, so themes change in this file only.
 */
import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from '@mantine/core';

/** White text on shade 8 passes WCAG AA. */
const harbour: MantineColorsTuple = [
  '#eef6fb',
  '#dcebf5',
  '#b8d7ea',
  '#8fc0de',
  '#6fb0d6',
  '#4f9dca',
  '#3b8cbc',
  '#2b77a5',
  '#1b5f8c',
  '#0f4a70',
];

/** Bluish greys. Shade 6 is for dimmed text and passes WCAG AA on every light surface. */
const gray: MantineColorsTuple = [
  '#f5f7f9',
  '#ebeff3',
  '#dfe5eb',
  '#cdd6de',
  '#b0bcc8',
  '#8491a0',
  '#57636f',
  '#414d59',
  '#2b3642',
  '#1a232d',
];

const dark: MantineColorsTuple = [
  '#dbe2e9',
  '#b9c4cf',
  '#97a4b2',
  '#6b7886',
  '#37434f',
  '#2b3540',
  '#212a33',
  '#192129',
  '#12181f',
  '#0c1116',
];

export const theme = createTheme({
  primaryColor: 'harbour',
  primaryShade: 8,
  colors: { harbour, gray, dark },
  black: gray[9],
  fontFamily: "'Inter Variable', Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
  fontFamilyMonospace:
    "'JetBrains Mono Variable', 'JetBrains Mono', ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.875rem', lg: '1rem', xl: '1.25rem' },
  lineHeights: { xs: '1.4', sm: '1.45', md: '1.5', lg: '1.5', xl: '1.4' },
  spacing: { xs: '0.5rem', sm: '0.75rem', md: '1rem', lg: '1.5rem', xl: '2rem' },
  defaultRadius: 'md',
  radius: { xs: '3px', sm: '5px', md: '7px', lg: '10px', xl: '16px' },
  headings: {
    fontWeight: '620',
    sizes: {
      h1: { fontSize: '1.5rem', lineHeight: '1.25' },
      h2: { fontSize: '1.0625rem', lineHeight: '1.35' },
      h3: { fontSize: '0.9375rem', lineHeight: '1.4' },
    },
  },
  cursorType: 'pointer',
  focusRing: 'auto',
  respectReducedMotion: true,
  // These are plain objects, because importing a component would load it with the first page.
  components: {
    Modal: {
      defaultProps: {
        radius: 'lg',
        overlayProps: { backgroundOpacity: 0.45 },
        centered: true,
      },
      // Mantine's line height of 1 would make the lines of a wrapped title touch.
      styles: {
        title: {
          fontWeight: 620,
          fontSize: 'var(--mantine-h2-font-size)',
          lineHeight: 'var(--mantine-h2-line-height)',
        },
      },
    },
    InputLabel: { styles: { label: { marginBottom: 2 } } },
    InputDescription: { styles: { description: { marginBottom: 4 } } },
  },
});

/**
 * The eight tones of statuses. They are distinguishable with the common kinds of colour blindness.
 * Statuses of one tone differ in icon and word, so colour is never the only difference.
 */
export type Tone = 'ok' | 'busy' | 'warn' | 'off' | 'bad' | 'leaving' | 'held' | 'idle';

interface ToneColours {
  /** Text and icons, on `bg` and on the page's surfaces. */
  fg: string;
  /** A light background tint. */
  bg: string;
  /** A strong fill, with `on` as its text colour. */
  solid: string;
  on: string;
}

export const lightTones: Record<Tone, ToneColours> = {
  ok: { fg: '#0a6350', bg: '#d8f0e8', solid: '#0b7d65', on: '#ffffff' },
  busy: { fg: '#0b569e', bg: '#dbeafa', solid: '#1a6fc0', on: '#ffffff' },
  warn: { fg: '#7d4b00', bg: '#fbe9c4', solid: '#eda51b', on: '#2e1c00' },
  off: { fg: '#36434f', bg: '#d9e0e7', solid: '#4d5c6b', on: '#ffffff' },
  bad: { fg: '#a31d0b', bg: '#fbe0db', solid: '#c52d18', on: '#ffffff' },
  leaving: { fg: '#5637a3', bg: '#e8e1f9', solid: '#6f4fbf', on: '#ffffff' },
  held: { fg: '#8a1b62', bg: '#f8dcec', solid: '#a32d77', on: '#ffffff' },
  idle: { fg: '#57636f', bg: '#ebeff3', solid: '#b0bcc8', on: '#1a232d' },
};

export const darkTones: Record<Tone, ToneColours> = {
  ok: { fg: '#66d6b8', bg: '#12342c', solid: '#2aa688', on: '#04150f' },
  busy: { fg: '#86bff7', bg: '#14304d', solid: '#4a96e0', on: '#04101d' },
  warn: { fg: '#f3bf5f', bg: '#3b2b0c', solid: '#eda51b', on: '#2e1c00' },
  off: { fg: '#c0cad5', bg: '#343f4b', solid: '#8a98a7', on: '#0c1116' },
  bad: { fg: '#ffa495', bg: '#4a1c15', solid: '#ef5f49', on: '#230602' },
  leaving: { fg: '#c0abf5', bg: '#2f2553', solid: '#9478de', on: '#0d0620' },
  held: { fg: '#f2a2d0', bg: '#451b37', solid: '#d863a8', on: '#21041a' },
  idle: { fg: '#97a4b2', bg: '#212a33', solid: '#56636f', on: '#ffffff' },
};

const toneVariables = (tones: Record<Tone, ToneColours>) =>
  Object.fromEntries(
    Object.entries(tones).flatMap(([tone, colours]) =>
      Object.entries(colours).map(([part, colour]) => [`--tone-${tone}-${part}`, colour]),
    ),
  );

export const cssVariables: CSSVariablesResolver = () => ({
  variables: { '--frame-width': '15rem', '--page-width': '87rem' },
  light: {
    '--surface-page': '#f5f7f9',
    '--surface-frame': '#ebeff3',
    '--surface-card': '#ffffff',
    '--surface-sunken': '#f5f7f9',
    '--surface-hover': '#f0f3f6',
    '--line': '#dfe5eb',
    '--line-strong': '#cdd6de',
    '--shadow-card': '0 1px 2px rgb(26 35 45 / 5%)',
    '--mantine-color-body': '#ffffff',
    '--mantine-color-placeholder': gray[6],
    ...toneVariables(lightTones),
  },
  dark: {
    '--surface-page': '#12181f',
    '--surface-frame': '#0c1116',
    '--surface-card': '#192129',
    '--surface-sunken': '#131a21',
    '--surface-hover': '#202932',
    '--line': '#2b3540',
    '--line-strong': '#37434f',
    '--shadow-card': 'none',
    '--mantine-color-body': '#192129',
    '--mantine-color-placeholder': dark[2],
    ...toneVariables(darkTones),
  },
});

/**
 * The variables of one tone, for elements whose style sheet uses `--fg`, `--bg`, `--solid`, `--on`.
 */
export const toneStyle = (tone: Tone): Record<string, string> =>
  Object.fromEntries(['fg', 'bg', 'solid', 'on'].map((part) => [`--${part}`, `var(--tone-${tone}-${part})`]));
