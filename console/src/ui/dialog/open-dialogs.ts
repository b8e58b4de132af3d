/**
 * Counts open dialogs. The DOM cannot answer this: a closed dialog stays in it for some frames, and
 * the keys pressed then would be ignored.
 */
import { useLayoutEffect } from 'react';

let openCount = 0;

export const isDialogOpen = (): boolean => openCount > 0;

export function useOpenDialog(isOpen: boolean): void {
  useLayoutEffect(() => {
    if (!isOpen) return;
    openCount++;
    return () => {
      openCount--;
    };
  }, [isOpen]);
}
