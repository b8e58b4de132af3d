/** One animation frame for every canvas that has something new to draw, and only then. */
import { useEffect, useRef } from 'react';

const painters = new Set<() => void>();
let asked = false;

/** Draws once before the next frame is shown, however many changes asked for it. */
export function askForFrame(): void {
  if (asked || painters.size === 0) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    for (const paint of painters) paint();
  });
}

export function useFleetFrame(paint: () => void): void {
  const latest = useRef(paint);
  latest.current = paint;
  useEffect(() => {
    const painter = () => latest.current();
    painters.add(painter);
    return () => {
      painters.delete(painter);
    };
  }, []);
}
