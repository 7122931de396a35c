CREATE TABLE instructor (
    instructor_id INTEGER PRIMARY KEY,
    instructor_name VARCHAR NOT NULL,
    home_country VARCHAR,
    hourly_pay DECIMAL(6,2) NOT NULL,
    hired_on DATE NOT NULL
);

CREATE TABLE dance_course (
    course_code VARCHAR PRIMARY KEY,
    instructor_id INTEGER,
    dance_style VARCHAR NOT NULL,
    skill_level VARCHAR NOT NULL,
    room VARCHAR,
    monthly_fee INTEGER NOT NULL,
    max_students INTEGER NOT NULL,
    FOREIGN KEY (instructor_id) REFERENCES instructor(instructor_id)
);

CREATE TABLE student (
    student_id INTEGER PRIMARY KEY,
    student_name VARCHAR NOT NULL,
    birth_date DATE,
    district VARCHAR,
    registered_on DATE NOT NULL
);

CREATE TABLE enrollment (
    enrollment_id INTEGER PRIMARY KEY,
    student_id INTEGER NOT NULL,
    course_code VARCHAR NOT NULL,
    enrolled_on DATE NOT NULL,
    lessons_attended INTEGER NOT NULL,
    exam_result VARCHAR,
    fee_paid BOOLEAN NOT NULL,
    FOREIGN KEY (student_id) REFERENCES student(student_id),
    FOREIGN KEY (course_code) REFERENCES dance_course(course_code)
);
