import { describe, expect, it } from 'vitest';
import { darkTones, lightTones } from './theme.ts';

/** WCAG 2.2 level AA for text of normal size. */
const minContrast = 4.5;

function luminance(hex: string): number {
  const channel = (at: number) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].toSorted((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

describe.each([
  ['light', lightTones, '#ffffff'],
  ['dark', darkTones, '#192129'],
])('the %s tones', (_, tones, card) => {
  it.each(Object.entries(tones))(
    '%s has enough contrast as text, on its tint and on its fill',
    (_, { fg, bg, solid, on }) => {
      expect(contrast(fg, bg)).toBeGreaterThanOrEqual(minContrast);
      expect(contrast(fg, card)).toBeGreaterThanOrEqual(minContrast);
      expect(contrast(on, solid)).toBeGreaterThanOrEqual(minContrast);
    },
  );
});
