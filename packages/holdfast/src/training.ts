/** State, train loop, schedules, preemption and elections for a trainer. */

export * from '@holdfast/training';
