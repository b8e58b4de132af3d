/** Shares one animation frame between all canvases. Nothing is drawn until a frame is requested. */
import { useEffect, useRef } from 'react';

const painters = new Set<() => void>();
let isRequested = false;

/** Schedules one draw in the next frame, even after many changes. */
export function requestFrame(): void {
  if (isRequested || painters.size === 0) return;
  isRequested = true;
  requestAnimationFrame(() => {
    isRequested = false;
    for (const paint of painters) paint();
  });
}

/** Calls `paint` in each shared frame while the component is mounted. */
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
