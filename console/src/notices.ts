/** Short notices that pass by. What a person must act on belongs on the page instead. */
import { notifications } from '@mantine/notifications';
import { failureOf } from './api/failure.ts';

const closeButtonProps = { 'aria-label': 'Close' };

export const say = {
  done: (message: string) => notifications.show({ message, color: 'teal', autoClose: 4000, closeButtonProps }),
  failed: (title: string, error: unknown) => {
    const { detail, remedy, correlation_id } = failureOf(error);
    const message = [detail, remedy, correlation_id && `Correlation id ${correlation_id}`].filter(Boolean).join(' ');
    notifications.show({ title, message, color: 'red', autoClose: false, closeButtonProps });
  },
};
