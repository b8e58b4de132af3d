/** One animation frame for all canvases, requested only when something changed. */
import { useEffect, useRef } from 'react';

const painters = new Set<() => void>();
let requested = false;

/** Draws once per frame, however many changes there are. */
export function requestFrame(): void {
  if (requested || painters.size === 0) return;
  requested = true;
  requestAnimationFrame(() => {
    requested = false;
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
