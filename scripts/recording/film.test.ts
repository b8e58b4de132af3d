import { expect, test } from 'vitest';
import { drawFilm, type Film } from './film.ts';
import type { Line } from './screen.ts';

const line = (text: string, ...codes: number[]): Line => [{ text, codes }];

const film = (...shown: Line[][]): Film => ({
  title: 'a <film>',
  panes: [{ title: 'terminal', rows: 2 }],
  frames: shown.map((lines, index) => ({ atMs: index * 1000, panes: [lines], caption: 'caption' })),
  holdMs: 1000,
});

test('shows each line in the frames that contain it', () => {
  const svg = drawFilm(film([line('first')], [line('first'), line('second')], [line('third')], [line('first')]));
  expect(svg).toContain('@keyframes k0{0%{opacity:1}50%{opacity:0}75%{opacity:1}}');
  expect(svg).toContain('@keyframes k1{0%{opacity:0}25%{opacity:1}50%{opacity:0}}');
  expect(svg).toContain('<title>a &lt;film&gt;</title>');
});

test('shows only the last picture if the reader prefers reduced motion', () => {
  const svg = drawFilm(film([line('first')], [line('last')]));
  expect(svg).toMatch(/class="t past"[^>]*>first</);
  expect(svg).toMatch(/class="t"[^>]*>last</);
  expect(svg.indexOf('@keyframes')).toBeGreaterThan(svg.indexOf('prefers-reduced-motion: no-preference'));
});

test('refuses text that does not fit, and unknown colours', () => {
  expect(() => drawFilm(film([line('a'), line('b'), line('c')]))).toThrow('room for 2');
  expect(() => drawFilm(film([line('a'.repeat(81))]))).toThrow('81 columns');
  expect(() => drawFilm(film([line('a', 45)]))).toThrow('SGR code 45');
});
