/**
 * Whether a dialog is open. The document cannot be asked: one that was closed stays in it for some frames, and would swallow
 * the keys that are pressed next.
 */
import { useLayoutEffect } from 'react';

let open = 0;

export const isDialogOpen = (): boolean => open > 0;

export function useOpenDialog(isOpen: boolean): void {
  useLayoutEffect(() => {
    if (!isOpen) return;
    open++;
    return () => {
      open--;
    };
  }, [isOpen]);
}
