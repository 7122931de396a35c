CREATE TABLE teacher (
    teacher_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    tradition VARCHAR,
    training_hours INTEGER,
    hourly_pay DECIMAL(5,2)
);

CREATE TABLE studio_class (
    class_code VARCHAR PRIMARY KEY,
    class_title VARCHAR NOT NULL,
    teacher_id INTEGER,
    weekday VARCHAR NOT NULL,
    duration_min INTEGER NOT NULL,
    mat_limit INTEGER,
    FOREIGN KEY (teacher_id) REFERENCES teacher(teacher_id)
);

CREATE TABLE student (
    student_no INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    birth_year INTEGER,
    pass_type VARCHAR NOT NULL,
    signed_up DATE NOT NULL,
    referral VARCHAR
);

CREATE TABLE attendance (
    attendance_id INTEGER PRIMARY KEY,
    class_code VARCHAR NOT NULL,
    student_no INTEGER NOT NULL,
    attended_on DATE NOT NULL,
    paid DECIMAL(6,2),
    star_rating INTEGER,
    FOREIGN KEY (class_code) REFERENCES studio_class(class_code),
    FOREIGN KEY (student_no) REFERENCES student(student_no)
);
