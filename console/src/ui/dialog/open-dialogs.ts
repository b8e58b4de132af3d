/**
 * Counts open dialogs. The DOM is no source: a closed dialog stays in it for some frames and would
 * swallow the next keys.
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
